// Package volleydebug shows the connections and listeners that live in a process,
// of all protocols of volley, in one form. [Snapshot] gives them to a program, and
// [Handler] to people, as a live page in a browser. A service gets it by three
// lines:
//
//	import "net/http"
//	import "volley/volleydebug"
//
//	go http.ListenAndServe("localhost:6060", volleydebug.Handler())
//
// Then the page is at http://localhost:6060/, and "volley top localhost:6060" shows
// the same in a terminal. Only requests from the machine itself are answered, see
// [Config].
//
// Nothing is done while nobody looks: figures are asked for when somebody does,
// and no message costs more for that.
package volleydebug
