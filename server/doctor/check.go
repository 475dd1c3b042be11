package doctor

// Verdict is the result of a check.
type Verdict string

// Verdicts.
const (
	OK      Verdict = "ok"
	Limited Verdict = "limited" // some of it works
	No      Verdict = "no"
)

// Kinds of checks, in the order in which they are shown.
const (
	KindMachine = "machine"
	KindTarget  = "target"
	KindStream  = "stream"
)

// Check is what was found about one thing.
type Check struct {
	Kind    string
	Name    string
	Verdict Verdict
	Found   string
	Remedy  string // what to do about it; "": nothing
}
