// Package riptide speaks the protocol of Riptide Networking, a C# library that
// is mostly used with Unity.
package riptide
