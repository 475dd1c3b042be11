// Package spelling counts how far two words are apart, for hints such as "did you
// mean nginx?". What makes a word worth suggesting is its callers' business.
//
// It must not know anything else of this project: parser, planner and probes use it.
package spelling
