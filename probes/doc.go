// Package probes acquires data: it turns an acquisition specification
// ([plan.Acquire]) into a stream of batches by attaching to programs, reading
// /proc, or replaying files, and removes everything that it attached.
//
// Each method of acquisition is a [Provider] in a package of its own. Nothing
// is attached before [Source.Start], except to measure its cost, and nothing
// stays attached after [Source.Stop].
//
// There is one contract, [Source]. [Info] lists a source's optional
// capabilities, which are used by sending a [Command]; a command that Info does
// not promise is refused with [ErrUnsupported]. Nothing asserts the type of a
// Source. A source over other sources documents at its Control, for every
// command, whether it forwards, translates, combines or refuses it. Package
// sourcetest checks the contract.
//
// To add something, write this:
//
//	stream     its row in the file of its family in planner/catalog (a new family is a
//	           file and a place in catalog.Streams); a provider package with a
//	           rows.Table of its columns and a Source that embeds [Base]; an entry of
//	           Engine.all in server/engine.go. Table columns and catalog columns are
//	           compared when the program starts
//	language   a package in probes/lang, used by probes/stack
//	BPF        a header in probes/bpf that includes what it uses; then go generate
//
// Providers must not know SQL, operators, sessions or the network.
package probes
