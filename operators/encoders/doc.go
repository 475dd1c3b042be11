// Package encoders turns ordered sequences of symbols - the calls of a thread, the methods
// of an object, the tokens of a file - into descriptions of their structure: call strings,
// n-level profiles, intervals, DAGs, run lengths, grammars, automata, and measures of
// locality and repetition. The problems and most of the algorithms are from Reiss and
// Renieris, Encoding program executions, ICSE 2001, and Huang, Dynamic Java program corpus
// analysis.
//
//	names ─Alphabet─► symbols ─Encoder─► Encoding ─► Text, Dot, JSON, SVG, ...
//	                                       │  └────► Decode (the lossless ones)
//	                  other sequences' ─► Merge
//
// An [Encoder] consumes one sequence incrementally within a memory budget. When the budget
// is used up it keeps the prefix encoded so far, and the encoding reports how much of the
// sequence it covers. An [Encoding] is a value: it does not change when its encoder
// continues, and any goroutine may read it. It depends only on the input, not on addresses,
// time or map order.
//
// A lossless encoding decodes to its input and can verify that ([Lossless], [Verify]): it
// carries a digest of the encoder's input.
//
// This package holds the contract, call strings and profiles, and the measures of locality,
// repetition and succession. Runs, grammars, automata and models are in encoders/structure;
// pictures are drawn by encoders/render and are pure functions of encodings.
//
// The package is a library of pure algorithms. It must not know SQL, batches, operators or
// probes, and does no input or output.
package encoders
