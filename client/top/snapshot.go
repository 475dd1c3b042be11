package top

import "time"

// How says how the figures of a function come about.
type How uint8

const (
	Sampled   How = iota // by stack samples alone
	AtLeast              // calls were counted in slices of time, too few for an estimate
	Estimated            // calls are counted in slices of time
	Counted              // every call is counted
)

// Function is a function's figures per second. What is not known is negative.
type Function struct {
	Name, Module string
	How          How
	Why          string        // why it is not counted; "": no reason
	Calls        float64       // per second
	Total        float64       // seconds per second in it and what it calls, waiting or not
	Self         float64       // CPU time per second of it itself, be it in calls of the system
	Avg, P99     time.Duration // of a call
	Cost         float64       // share of a CPU that counting all its calls costs
}

// Snapshot is what the screen shows.
type Snapshot struct {
	At        time.Time
	Functions []Function
	CPU       float64 // CPUs that the program uses
	Threads   int
	Samples   int     // stack samples of the last seconds
	Limit     float64 // the most that the measurement may take of the program's CPU time
	Counting  float64 // what probes and engine have taken in the last seconds; 0: not known yet
	Sampling  float64 // what stack samples have taken; it is in Counting, too
	Ended     bool    // the target has ended
	Err       error   // the measurement has failed
}

// Overhead is the measured cost of everything, as a share of the program's CPU time.
func (s *Snapshot) Overhead() float64 { return max(s.Counting, s.Sampling) }

// numbers returns how many functions there are of each kind.
func (s *Snapshot) numbers() (n [4]int) {
	for _, f := range s.Functions {
		n[f.How]++
	}
	return n
}
