package volleyotel_test

import (
	"testing"

	"volley/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
