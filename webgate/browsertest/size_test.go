package browsertest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tdewolff/minify/v2"
	"github.com/tdewolff/minify/v2/js"

	"volley/webgate"
)

// maxMinified is the largest size in bytes of the client when it is minified.
const maxMinified = 20 << 10

func TestScriptSize(t *testing.T) {
	m := minify.New()
	m.AddFunc("text/javascript", js.Minify)
	small, err := m.Bytes("text/javascript", webgate.Script())
	require.NoError(t, err)
	t.Logf("%d bytes, minified %d", len(webgate.Script()), len(small))
	require.LessOrEqual(t, len(small), maxMinified)
}
