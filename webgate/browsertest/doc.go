// Package browsertest tests package webgate and js/volley.js with a headless Chromium
// and with node. It is a module of its own, so that a user of webgate downloads none of
// what it depends on.
package browsertest
