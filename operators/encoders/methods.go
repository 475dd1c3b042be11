package encoders

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"
)

// Method is what is known of a method before it runs.
type Method struct {
	Size   int64 // bytes of code; 0: not known, as of native methods
	Native bool  // not in the language of the program
}

// MethodSurvey is the static and dynamic counts of the methods of a program
// (Hwang, "other behaviors"): how large they are, how many are native, how often
// those are called, and how far the search for a method goes.
type MethodSurvey struct {
	Methods           int64
	Native            int64 // of the methods
	Invocations       int64
	NativeInvocations int64
	Sizes             Stats     // of the methods whose size is known: Sum is in bytes
	SizeCounts        [65]int64 // of those, by bit length: entry b has the sizes from 2^(b-1) to 2^b-1
	LookupCounts      []int64   // invocations by steps from receiver's class to method's class
	Unrelated         int64     // invocations whose receiver does not derive from the method's class
}

// mostSteps bounds LookupCounts: longer ways count as that.
const mostSteps = 255

// Add counts a method that the program has.
func (s *MethodSurvey) Add(m Method) {
	s.Methods++
	if m.Native {
		s.Native++
	}
	if m.Size > 0 {
		s.Sizes.Add(m.Size)
		s.SizeCounts[bits.Len64(uint64(m.Size))]++
	}
}

// Invoke counts n calls of a method.
func (s *MethodSurvey) Invoke(m Method, n int64) {
	s.Invocations += n
	if m.Native {
		s.NativeInvocations += n
	}
}

// Lookup counts n calls whose method was found after a number of steps (see
// [Hierarchy.Distance]).
func (s *MethodSurvey) Lookup(steps int, n int64) {
	if steps < 0 {
		s.Unrelated += n
		return
	}
	steps = min(steps, mostSteps)
	for len(s.LookupCounts) <= steps {
		s.LookupCounts = append(s.LookupCounts, 0)
	}
	s.LookupCounts[steps] += n
}

// Merge adds the methods and calls of another program, or of another part of
// one.
func (s *MethodSurvey) Merge(o *MethodSurvey) {
	s.Methods += o.Methods
	s.Native += o.Native
	s.Invocations += o.Invocations
	s.NativeInvocations += o.NativeInvocations
	s.Sizes.Merge(&o.Sizes)
	for b, n := range o.SizeCounts {
		s.SizeCounts[b] += n
	}
	for steps, n := range o.LookupCounts {
		s.Lookup(steps, n)
	}
	s.Unrelated += o.Unrelated
}

// MeanLookup is the mean number of steps from receiver's class to method's
// class; 0 if there was none.
func (s *MethodSurvey) MeanLookup() float64 {
	var n, sum int64
	for steps, c := range s.LookupCounts {
		n += c
		sum += int64(steps) * c
	}
	return ratio(sum, n)
}

// String is a table for people.
func (s *MethodSurvey) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "methods %d, native %d (%.3g%%)\n", s.Methods, s.Native, 100*ratio(s.Native, s.Methods))
	fmt.Fprintf(&b, "invocations %d, native %d (%.3g%%)\n", s.Invocations, s.NativeInvocations, 100*ratio(s.NativeInvocations, s.Invocations))
	fmt.Fprintf(&b, "size mean %.1f bytes, deviation %.1f", s.Sizes.Mean(), s.Sizes.Deviation())
	for i, n := range s.SizeCounts {
		if n > 0 {
			fmt.Fprintf(&b, "\n  %d to %d bytes: %d", uint64(1)<<(i-1), uint64(1)<<i-1, n)
		}
	}
	if len(s.LookupCounts) > 0 || s.Unrelated > 0 {
		fmt.Fprintf(&b, "\nlookup distance mean %.3g", s.MeanLookup())
		for steps, n := range s.LookupCounts {
			if n > 0 {
				fmt.Fprintf(&b, "\n  %d: %d", steps, n)
			}
		}
	}
	if s.Unrelated > 0 {
		fmt.Fprintf(&b, "\n  not in one hierarchy: %d", s.Unrelated)
	}
	return b.String()
}

// MarshalJSON gives all counts; sizes as a list of [from, to, count].
func (s *MethodSurvey) MarshalJSON() ([]byte, error) {
	sizes := [][3]uint64{}
	for i, n := range s.SizeCounts {
		if n > 0 {
			sizes = append(sizes, [3]uint64{1 << (i - 1), 1<<i - 1, uint64(n)})
		}
	}
	return json.Marshal(struct {
		Methods   int64       `json:"methods"`
		Native    int64       `json:"native"`
		Calls     int64       `json:"invocations"`
		NatCalls  int64       `json:"native_invocations"`
		Mean      float64     `json:"size_mean"`
		Deviation float64     `json:"size_deviation"`
		Sizes     [][3]uint64 `json:"sizes"`
		Lookups   []int64     `json:"lookup_distances"`
		Unrelated int64       `json:"unrelated,omitempty"`
	}{s.Methods, s.Native, s.Invocations, s.NativeInvocations, s.Sizes.Mean(), s.Sizes.Deviation(), sizes, append([]int64{}, s.LookupCounts...), s.Unrelated})
}
