package riptide

import "testing"

func testSessions(t *testing.T, _ Version, _ []byte) { t.Skip("there is no server and client yet") }
