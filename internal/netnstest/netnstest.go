// Package netnstest is test support: it runs tests in network namespaces of
// their own, where they may change addresses, routes and MTUs.
package netnstest
