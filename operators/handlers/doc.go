// Package handlers finds the event handlers of a program in samples of its
// stacks, after Steven P. Reiss, "Dynamic Detection of Event Handlers" (WODA
// 2008; section numbers in comments are of that paper).
//
// A [Trie] accumulates stacks: how often each function of the program was the
// innermost one, and whether it then ran, waited, or did input or output. Tries
// of the same program may be merged in any order. [Trie.Analyse] finds the
// functions that a loop calls in between waiting or reading (events), and those
// that a library calls back. Beyond the paper it finds the events of loops that
// are the system's, as thread pools have them, and of loops that hardly wait.
//
// A [Recent] forgets what was long ago, for who follows a program that changes.
//
// A [Profile] is a trie with all that is shown of it: text, JSON, the paper's
// XML, folded stacks, and a flame graph.
//
// It is pure: no clock, no input or output. It must not know where stacks come
// from, but for how a value of the column stack is built ([Reader]).
package handlers
