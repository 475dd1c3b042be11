// Package sourcetest supports tests of sources: a fake source, and a check that
// a source keeps the contract of [probes.Source]. It must not know any
// provider.
package sourcetest
