// Package repotest holds the tests of the repository as a whole: the packages
// import what the rules allow, the documents link to files that exist, and the
// code and the commands in the documents run.
package repotest
