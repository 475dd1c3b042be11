// Package structure encodes the structure of sequences: run lengths, DAGs of calls,
// grammars (SEQUITUR) and automata. A [Model] is an automaton or a grammar that other
// sequences are compared with ([ConformanceEncoder]).
//
// It must not know SQL, batches, operators or probes, and does no input or output.
package structure
