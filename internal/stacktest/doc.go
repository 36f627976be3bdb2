// Package stacktest tests stacks of volley's layers as programs build them. It
// holds tests only.
package stacktest
