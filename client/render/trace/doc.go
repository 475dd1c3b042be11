// Package trace encodes traces for Perfetto: packets of events on tracks, as protocol buffers.
// Only the numbers of the fields that are used are here, not the published schema.
//
// It must not know batches or results.
package trace
