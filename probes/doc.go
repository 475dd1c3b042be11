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
// Providers must not know SQL, operators, sessions or the network.
package probes
