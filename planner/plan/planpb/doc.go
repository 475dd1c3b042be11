// Package planpb encodes fragments of plans as protocol buffers, with the schema
// fragment.proto.
//
// Each message has one function (coder) that both writes and reads its fields, so
// that the two cannot differ. Unknown fields are skipped. What is read is checked
// before use: it comes from another machine.
//
// It must not know how fragments are used.
package planpb
