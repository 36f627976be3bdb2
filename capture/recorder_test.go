package capture

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigErrors(t *testing.T) {
	for field, cfg := range map[string]*Config{
		"MaxBytes": {MaxBytes: 65535},
		"Ring":     {Ring: true, Output: io.Discard},
	} {
		_, err := NewRecorder(cfg)
		var ce *ConfigError
		require.ErrorAs(t, err, &ce)
		require.Equal(t, field, ce.Field)
	}
	_, err := NewRecorder(&Config{MaxBytes: -1})
	require.Error(t, err)
}
