package socket

import (
	"testing"

	"volley/internal/leaktest"
)

// TestMain fails if goroutines are left behind.
func TestMain(m *testing.M) { leaktest.Main(m) }
