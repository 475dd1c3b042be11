package planpb

import (
	"fmt"

	"endoscope/planner/plan"
)

// Version is that of the schema: a fragment of another one is not read.
const Version = 2

// MaxFragment is how many bytes an encoded fragment may have: no more are sent, or
// read.
const MaxFragment = 1 << 20

var errSize = fmt.Errorf("a fragment of a plan has more than %d bytes", MaxFragment)

// Encode returns the encoding of a fragment, to be sent to another process. It
// fails for constants that have no form outside the process, such as models, and
// for fragments that Decode would refuse.
func Encode(f *plan.Fragment) ([]byte, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	return Marshal(f)
}

// Marshal is Encode without checks.
func Marshal(f *plan.Fragment) ([]byte, error) {
	c := &coder{state: &state{}}
	fragment(c, f)
	switch {
	case c.state.err != nil:
		return nil, c.state.err
	case len(c.to) > MaxFragment:
		return nil, errSize
	}
	return c.to, nil
}

// Decode reads a fragment. The types of its expressions are valid for the existing
// columns, functions and outputs (see plan.Fragment.Check).
func Decode(b []byte) (*plan.Fragment, error) {
	if len(b) > MaxFragment {
		return nil, errSize
	}
	c := &coder{reads: true, state: &state{}}
	f := &plan.Fragment{}
	if c.parse(b); c.state.err == nil {
		fragment(c, f)
	}
	if c.state.err != nil {
		return nil, c.state.err
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return f, nil
}

func fragment(c *coder, f *plan.Fragment) {
	version := uint64(Version)
	if c.uint(1, &version); version != Version {
		c.fail(fmt.Errorf("the plan that was sent is of version %d, and this is version %d", version, Version))
		return
	}
	node(c, 2, &f.Lower)
	node(c, 3, &f.Upper)
	if c.reads && c.has(4) {
		f.Exchange = &plan.Exchange{}
	}
	if f.Exchange != nil {
		c.message(4, func(c *coder) { exchange(c, f.Exchange) })
	}
}

func exchange(c *coder, x *plan.Exchange) {
	enum(c, 1, &x.Kind)
	enum(c, 2, &x.Again)
	c.numbers(3, &x.Pick)
	number(c, 4, &x.Time)
	number(c, 5, &x.Start)
	number(c, 6, &x.End)
	number(c, 7, &x.Limit)
	number(c, 8, &x.Gap)
	c.message(9, func(c *coder) {
		number(c, 1, &x.Spans.First)
		number(c, 2, &x.Spans.Last)
		number(c, 3, &x.Spans.Count)
		number(c, 4, &x.Spans.Partition)
		number(c, 5, &x.Spans.Partitions)
	})
	c.texts(10, &x.Notices)
	c.bool(11, &x.Nothing)
}
