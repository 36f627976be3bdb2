// Package volleydebug shows the connections and listeners of a process, of all
// protocols of volley, in one form: [Snapshot] for programs, and [Handler] as a live
// page in a browser. A service needs three lines:
//
//	import "net/http"
//	import "volley/volleydebug"
//
//	go http.ListenAndServe("localhost:6060", volleydebug.Handler())
//
// Then the page is at http://localhost:6060/, and "volley top localhost:6060" shows
// the same in a terminal. Only requests from this machine are answered, see
// [Config]. The package does nothing while it is not asked.
package volleydebug
