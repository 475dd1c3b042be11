//go:build cgo

package main

import "endoscope/probes/uprobe/testdata/gosequence/threadlocal"

func init() { touch = threadlocal.Touch }
