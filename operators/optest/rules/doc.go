// Package rules tests package consistency: Check compares the reports of a stream of
// events with the rules that they must obey, given the complete stream.
//
// It was written from the rules and must not know how a keeper decides what to report.
package rules
