// Package volleydebug shows the connections and listeners that live in a process,
// of all protocols of volley, in one form. [Snapshot] gives them to a program.
package volleydebug
