package interpreter

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"endoscope/probes/testenv"
)

// fake is a layout whose frames lie in the memory of this process.
type fake struct {
	frames Frames
	listed int
}

func (f *fake) Frames() Frames { return f.frames }

func (f *fake) Threads(Memory) map[int]Thread {
	f.listed++
	return map[int]Thread{7: {State: 1, ID: 2}}
}

// Function returns a function by the number in its code: 1 is no function, 2 has no name, 3 has
// another place, others have a line.
func (f *fake) Function(_ Memory, c Call) (Frame, bool) {
	one := Frame{Function: "f", File: "a.x", Line: int(c.Place)}
	switch c.Code {
	case 1:
		return Frame{}, false
	case 2:
		return Frame{}, true
	case 3:
		one.Misplaced = true
	}
	return one, true
}

func (f *fake) AwaitsLock(Memory, Thread, Wait) bool { return false }

// memory is what a thread's state leads to: words that are read from this process.
type memory []uint64

func (m memory) at(word int) uint64 { return uint64(uintptr(unsafe.Pointer(&m[word]))) }

// Frames that are linked are followed to their end, and not further than the limit: a circle is
// not complete. The identity of the thread, and memory that cannot be read, end the walk.
func TestLinkedFrames(t *testing.T) {
	m := make(memory, 64)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&m[0])
	const id, first = 99, 8
	m[0], m[1] = id, m.at(first)
	// Frames: code, place, previous; 9 words are read of each.
	m[first], m[first+1], m[first+2] = 10, 5, m.at(first+3)
	m[first+3], m[first+4], m[first+5] = 0, 0, m.at(first+6) // of a call from C
	m[first+6], m[first+7], m[first+8] = 11, 6, 0
	l := &fake{frames: Frames{ID: 0, Frame: 8, Inner: Nowhere, Code: 0, Place: 8, Previous: 16, Owner: Nowhere, Method: Nowhere, Stack: Nowhere}}
	p := Open(os.Getpid(), l, 0)
	thread := Thread{State: m.at(0), ID: id}
	calls, ok := p.Calls(thread, nil)
	if want := []Call{{10, 5}, {11, 6}}; !ok || !slices.Equal(calls, want) {
		t.Errorf("frames %v, %v, want %v", calls, ok, want)
	}
	m[first+8] = m.at(first)
	if calls, ok := p.Calls(thread, nil); ok || len(calls) < MaxFrames/2 || len(calls) > MaxFrames {
		t.Errorf("of a circle there are %d frames, %v", len(calls), ok)
	}
	m[first+8] = 8
	if calls, ok := p.Calls(thread, nil); ok || len(calls) != 2 {
		t.Errorf("before memory that cannot be read are %v, %v", calls, ok)
	}
	if _, ok := p.Calls(Thread{State: m.at(0), ID: id + 1}, nil); ok {
		t.Error("the frames of another thread are read")
	}
}

// Frames that lie side by side are read up to the end of their memory; one that is not in it is
// refused. A frame without code has that of its method.
func TestFramesSideBySide(t *testing.T) {
	m := make(memory, 64)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&m[0])
	const id, holder, area = 99, 4, 10
	m[0], m[1] = id, m.at(holder)
	m[holder], m[holder+1], m[holder+2] = m.at(area), 12, m.at(area+6) // the memory, its length, the innermost frame
	// Frames of three words: place, code, method.
	m[area+6], m[area+7] = 5, 10
	m[area+11] = m.at(42)
	m[40] = 12
	l := &fake{frames: Frames{ID: 0, Frame: 8, Inner: 16, Stack: 0, Place: 0, Code: 8, Method: 16, Size: 24, Previous: Nowhere, Owner: Nowhere}}
	p := Open(os.Getpid(), l, 0)
	thread := Thread{State: m.at(0), ID: id}
	calls, ok := p.Calls(thread, nil)
	if want := []Call{{10, 5}, {12, 0}}; !ok || !slices.Equal(calls, want) {
		t.Errorf("frames %v, %v, want %v", calls, ok, want)
	}
	for _, outside := range []uint64{m.at(area - 1), m.at(area + 13), 1 << 60} {
		m[holder+2] = outside
		if calls, ok := p.Calls(thread, nil); ok || len(calls) > 0 {
			t.Errorf("a frame outside is read: %v", calls)
		}
	}
}

// A stack of which a function cannot be read is refused, also one with a function that was not
// called there. Functions without name are left out.
func TestFunctions(t *testing.T) {
	p := Open(os.Getpid(), &fake{}, 0)
	for _, one := range []struct {
		calls []Call
		lines string
		ok    bool
	}{
		{[]Call{{10, 1}, {2, 0}, {11, 2}}, "12", true},
		{[]Call{{3, 1}, {11, 2}}, "12", true}, // the innermost has begun
		{[]Call{{11, 2}, {3, 1}}, "2", false},
		{[]Call{{11, 2}, {1, 1}}, "2", false},
	} {
		frames, ok := p.Functions(one.calls, nil)
		var lines strings.Builder
		for _, f := range frames {
			lines.WriteByte('0' + byte(f.Line))
		}
		if ok != one.ok || lines.String() != one.lines {
			t.Errorf("%v has %v, %v", one.calls, frames, ok)
		}
	}
	if c := p.At(Call{10, 1}, 4); c.Place != 4 {
		t.Errorf("the place is %d", c.Place)
	}
	if c := p.At(Call{10, 1}, 0); c.Place != 1 {
		t.Errorf("the place is %d", c.Place)
	}
}

// Threads are listed again for one that is missing, not at each request.
func TestThreads(t *testing.T) {
	l := &fake{}
	p, began := Open(os.Getpid(), l, 0), time.Now()
	for range 10 {
		if _, ok := p.Thread(7); !ok {
			t.Fatal("the thread is not found")
		}
	}
	for range 10 {
		if _, ok := p.Thread(8); ok {
			t.Fatal("another thread is found")
		}
	}
	if most := 1 + int(time.Since(began)/relist); l.listed > most {
		t.Errorf("threads are listed %d times, at most %d were expected", l.listed, most)
	}
	p.Forget(7)
	testenv.Until(t, "threads are listed again", func() bool { _, ok := p.Thread(7); return ok })
}

// A name ends at a zero byte or at the limit, not within a character.
func TestName(t *testing.T) {
	text := []byte("größe\x00rest" + strings.Repeat("ö", MaxName))
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&text[0])
	m := Memory{PID: os.Getpid()}
	at := func(i int) uint64 { return uint64(uintptr(unsafe.Pointer(&text[i]))) }
	for _, one := range []struct {
		at, n uint64
		want  string
	}{
		{at(0), 7, "größe"},
		{at(0), 10, "größe"},
		{at(12), 2 * MaxName, strings.Repeat("ö", MaxName/2)},
		{at(11), 2 * MaxName, "t" + strings.Repeat("ö", MaxName/2-1)},
		{at(7), 3, ""},
		{at(0), 0, ""},
		{at(0), 1 << 40, ""},
		{8, 4, ""},
	} {
		if got, ok := m.Name(one.at, one.n); got != one.want || ok != (one.want != "") {
			t.Errorf("%d bytes are %q, want %q", one.n, got, one.want)
		}
	}
}
