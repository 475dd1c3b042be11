// Package probes acquires: it turns an acquisition specification
// ([plan.Acquire]) into a stream of batches by attaching to programs, reading
// /proc, or replaying files, and takes everything away again.
//
// Each way of acquiring is a [Provider] in a package of its own. Nothing is
// attached before [Source.Start], but to measure what that will cost, and
// nothing stays after [Source.Stop].
//
// There is one contract, [Source]. What a source can do beyond the common is said by
// its [Info] and told to it by a [Command]; one that its Info does not promise is
// refused with [ErrUnsupported]. Nothing asserts the type of a Source. A source over
// other sources states for every command whether it forwards, translates, combines or
// refuses it, where its Control is. Package sourcetest checks all this.
//
// Providers must not know SQL, operators,
// sessions or the network.
package probes
