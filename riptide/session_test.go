package riptide

import "testing"

func testSessions(t *testing.T, version Version, data []byte) {}
