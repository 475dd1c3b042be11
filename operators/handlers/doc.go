// Package handlers finds the event handlers of a program in samples of its
// stacks, after Steven P. Reiss, "Dynamic Detection of Event Handlers" (WODA
// 2008; section numbers in comments are of that paper).
//
// A [Trie] accumulates stacks: how often each function of the program was the
// innermost one, and whether it then ran, waited, or did input or output. Tries
// of the same program may be merged in any order. [Trie.Analyse] finds the
// functions that a loop calls in between waiting or reading (events), and those
// that a library calls back.
//
// It is pure: no clock, no input or output. It must not know where stacks come
// from.
package handlers
