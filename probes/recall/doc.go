// Package recall holds the memory in which calls are recorded until a trigger recalls them
// (RECALL; probes/bpf/recall.h). A Set belongs to one action of a trigger. The programs of
// the action write the events of each thread, goroutine and coroutine to a ring of its own;
// those of the trigger's condition exchange the ring for a free one when a tuple satisfies
// it. A Set reads the exchanged rings and frees them.
//
// After an exchange a sequence begins with an empty ring. A firing soon afterwards also
// looks back to events of the ring before, so that these are kept.
//
// One goroutine reads a Set. Summaries pass from it to the code that reports them, under
// Set.mu; no other lock is taken meanwhile.
//
// It must not know functions, queries or triggers.
package recall
