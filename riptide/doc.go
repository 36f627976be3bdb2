// Package riptide speaks the protocol of Riptide Networking, a C# library that
// is mostly used with Unity: [Message] is its format, in the packed layout of
// the releases 2.1.0 to 2.2.1 and in the layout of whole bytes that its notes
// describe.
package riptide
