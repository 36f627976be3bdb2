package webgate

import _ "embed"

// Script returns js/volley.js, the client for browsers, so that a server can serve it.
func Script() []byte { return append([]byte(nil), script...) }

//go:embed js/volley.js
var script []byte
