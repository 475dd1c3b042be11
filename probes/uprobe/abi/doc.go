// Package abi defines the numbers shared by the programs of package bpf and the packages
// under uprobe: the options of a query, the flags in the cookie of a probe, and the
// kinds of targets (function.bpf.c).
//
// It must not know which code sets them or what a query is.
package abi
