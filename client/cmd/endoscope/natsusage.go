package main

import _ "unsafe" // go:linkname

// natsStatFile is the file in which nats-server's package pse reads the usage of its process each
// second, from the start of every program that contains it, whether a server runs or not. The
// package has no means to end that: it gives up where the file cannot be read.
//
//go:linkname natsStatFile github.com/nats-io/nats-server/v2/server/pse.procStatFile
var natsStatFile string

func init() { forgetNATSUsage() }

// forgetNATSUsage makes the next reading, a second after the start, the last.
//
//go:norace
func forgetNATSUsage() { natsStatFile = "" }
