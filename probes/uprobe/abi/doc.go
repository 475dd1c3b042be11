// Package abi has the numbers that the programs of package bpf and the rooms of
// uprobe agree on: the options of a query, the flags in the cookie of a probe, and
// the kinds of targets (function.bpf.c).
//
// It must not know who sets them or what a query is.
package abi
