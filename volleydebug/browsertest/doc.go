// Package browsertest tests the debug page of package volleydebug in a headless
// Chromium. It is a module of its own, so that a user of the library downloads
// none of what it depends on.
package browsertest
