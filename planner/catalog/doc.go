// Package catalog is the one list of what can be asked: streams with their
// columns, settings, and the streams that users define. SHOW, DESCRIBE, name
// resolution and the probe providers all read it; a test holds the providers'
// own column tables to it.
//
// It must not know plans, how anything is acquired, or the state of a machine.
package catalog
