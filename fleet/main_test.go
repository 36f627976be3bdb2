package fleet

import (
	"testing"

	"volley/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
