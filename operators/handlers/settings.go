package handlers

// Settings are the parameters of the analysis. Shares are relative to the samples of a
// thread's first function and its callees, so that many idle threads, or one busy thread,
// do not change the results for the others.
type Settings struct {
	MinSamples      uint64  // of a node, to be classified by its own samples
	MinChildSamples uint64  // of a node's callees, to be classified by theirs
	MinShare        float64 // in either case
	WaitRatio       float64 // share of a node's samples above which it waits
	WaitShare       float64 // of those, at least
	IORatio         float64 // the same for input
	IOShare         float64
	RunRatio        float64 // share of a node's samples that run, read or write, above which it works
	OutputRatio     float64 // share of a function's samples that write, above which it is not a handler
}

// Defaults differ from the paper's numbers (section 5), found with Java programs whose
// loops consist of a call that waits. Loops of compiled programs inspect the input and
// choose a handler themselves, and a busy loop hardly waits.
var Defaults = Settings{MinSamples: 10, MinChildSamples: 40, MinShare: 0.0001, WaitRatio: 0.60, WaitShare: 0.01, IORatio: 0.60, IOShare: 0.01, RunRatio: 0.60, OutputRatio: 0.75}
