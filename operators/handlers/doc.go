// Package handlers finds the event handlers of a program in samples of its stacks, after
// Steven P. Reiss, "Dynamic Detection of Event Handlers" (WODA 2008; section numbers in
// comments are of that paper).
//
// A [Trie] accumulates stacks: how often each function of the program was innermost, and
// whether it was running, waiting, or doing input or output. Tries of the same program may
// be merged in any order. [Trie.Analyse] finds the functions that a loop calls between
// waiting or reading (events), and those that a library calls back. Beyond the paper, it
// finds the events of the system's loops, as in thread pools, and of loops that hardly
// wait.
//
// A [Recent] drops old samples, for programs that change over time.
//
// A [Profile] is a trie with all its output forms: text, JSON, the paper's XML, folded
// stacks, and a flame graph.
//
// The package is pure: no clock, no input or output. It must not know the source of the
// stacks, except for the layout of a value of the column stack ([Reader]).
package handlers
