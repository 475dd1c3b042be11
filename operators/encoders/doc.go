// Package encoders turns ordered sequences of symbols - the calls of a thread,
// the methods of an object, the tokens of a file - into descriptions of their
// structure: call strings, n-level profiles, intervals, DAGs, run lengths,
// grammars, automata, and measures of locality and repetition. (Reiss and
// Renieris: Encoding program executions, ICSE 2001, and Huang: Dynamic Java
// program corpus analysis, give the problems and most of the algorithms.)
//
//	names ─Alphabet─► symbols ─Encoder─► Encoding ─► Text, Dot, JSON, SVG, ...
//	                                       │  └────► Decode (the lossless ones)
//	                  other sequences' ─► Merge
//
// An [Encoder] is fed one sequence as it happens and holds no more memory than
// its budget: past it the prefix that was encoded stays, and the encoding says
// how much of the sequence it is of. An [Encoding] is a value: it does not
// change when its encoder goes on, and may be read by any goroutine. What an
// encoding says depends on its input alone, not on addresses, time or the order
// of maps.
//
// A lossless encoding decodes to its input, and can check that itself
// ([Lossless], [Verify]): it carries a digest of what the encoder was given.
//
// This package has the contract, call strings and profiles, and measures of locality,
// repetition and succession. Runs, grammars, automata and models are in
// encoders/structure, the drawing of pictures in encoders/render.
//
// Pictures are pure functions of encodings.
//
// The package is a library of pure algorithms. It must not know SQL, batches,
// operators, probes, or do any input or output.
package encoders
