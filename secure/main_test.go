package secure

import (
	"testing"

	"volley/internal/leaktest"
)

func TestMain(m *testing.M) {
	if !runProcess() {
		leaktest.Main(m)
	}
}
