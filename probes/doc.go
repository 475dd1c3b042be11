// Package probes acquires: it turns an acquisition specification
// ([plan.Acquire]) into a stream of batches by attaching to programs, reading
// /proc, or replaying files, and takes everything away again.
//
// Each way of acquiring is a [Provider] in a package of its own. Nothing is
// attached before [Source.Start], but to measure what that will cost, and
// nothing stays after [Source.Stop]. Providers must not know SQL, operators,
// sessions or the network.
package probes
