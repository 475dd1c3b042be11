package handlers

// Settings are the numbers that the analysis depends on. Shares are of what a
// thread's first function, and all that it calls, have in samples: many threads
// at rest, or one that is busy, do not change what is found in the others.
type Settings struct {
	MinSamples      uint64  // of a node, to be judged by its own
	MinChildSamples uint64  // of a node's callees, to be judged by theirs
	MinShare        float64 // in either case
	WaitRatio       float64 // of a node's samples, above which it waits
	WaitShare       float64 // of those, at least
	IORatio         float64 // the same for input
	IOShare         float64
	RunRatio        float64 // of a node's samples that run, read or write, above which it works
	OutputRatio     float64 // of a function's samples that write, above which it handles nothing
}

// Paper are the paper's numbers (section 5), found with Java programs, whose
// loops consist of a call that waits.
var Paper = Settings{MinSamples: 10, MinChildSamples: 40, MinShare: 0.0001, WaitRatio: 0.99, WaitShare: 0.01, IORatio: 0.999, IOShare: 0.05, RunRatio: 0.90, OutputRatio: 1}

// Defaults differ from them where loops of compiled programs do: these look at
// what came and choose a handler themselves, and a busy one hardly waits at all.
var Defaults = Settings{MinSamples: 10, MinChildSamples: 40, MinShare: 0.0001, WaitRatio: 0.60, WaitShare: 0.01, IORatio: 0.60, IOShare: 0.01, RunRatio: 0.60, OutputRatio: 0.75}
