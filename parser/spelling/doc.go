// Package spelling computes the edit distance of two words, for hints such as "did you mean
// nginx?". The callers decide which words to suggest.
//
// It must not know anything else of this project: parser, planner and probes use it.
package spelling
