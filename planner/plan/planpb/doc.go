// Package planpb is the form in which fragments of plans travel: protocol buffers, of
// which fragment.proto is the schema.
//
// Each message has one function that both writes and reads it, by a message's fields
// (coder), so that the two cannot differ. Fields that are not known are skipped. What
// is read is checked before anybody sees it: it comes from another machine.
//
// It must not know what is done with fragments.
package planpb
