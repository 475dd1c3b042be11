// Package demo is a small program to monitor, for `endoscope demo` and for
// tests: a C program of a few threads (target/demo.c), built ahead and embedded, so
// that the first query needs nothing but endoscope itself.
//
// It is dynamically linked and needs glibc 2.34 or later. Its source says what
// its functions do; they are what users see in their first results.
//
// The package starts and ends the program. It must not know queries.
package demo
