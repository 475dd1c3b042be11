package java

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDescriptor: as many parameters come out as go in, and nothing of an invalid
// descriptor.
func FuzzDescriptor(f *testing.F) {
	for _, seed := range []string{"()V", "(ILjava/lang/String;[J)V", "([[[D)[I", "(L;)V", "([)V", "(Lx", "(", "(V)V", "(LI;Z)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, descriptor string) {
		list, ok := Parameters(descriptor)
		if !ok && list != "" {
			t.Errorf("%q: %q", descriptor, list)
		}
		if len(list) > 8*len(descriptor) {
			t.Errorf("%d bytes of %d", len(list), len(descriptor))
		}
		for _, alias := range (&Method{Class: "a", Name: "b", Descriptor: descriptor}).Aliases() {
			if !ok || !strings.HasPrefix(alias, "a.b(") {
				t.Errorf("%q has the alias %q", descriptor, alias)
			}
		}
	})
}

// FuzzDump reads any answer of a machine as a dump of its threads.
func FuzzDump(f *testing.F) {
	f.Add([]byte("\"worker-0\" #12 prio=5 tid=0x7f nid=0x1f2 in Object.wait()  [0x7f]\n   java.lang.Thread.State: WAITING (on object monitor)\n" +
		"\tat java.lang.Object.wait(java.base@17.0.15/Native Method)\n\t- waiting on <0x71> (a java.util.LinkedList)\n\tat app.Server.nextJob(Server.java:13)\n\n\"VM Thread\" nid=7 runnable\n"))
	f.Add([]byte("\"\n\tat \n\"x\" nid=\n   java.lang.Thread.State: \n\tat (\n\tat /@)\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, th := range Parse(text) {
			if th.TID < 0 || len(th.Frames) > maxFrames {
				t.Errorf("%+v", th)
			}
			for _, frame := range th.Frames {
				if len(frame.Method)+len(frame.Module) > maxName {
					t.Errorf("%+v", frame)
				}
			}
		}
	})
}

// FuzzLoaded lets a machine's structures be any bytes: the names of its methods are read in
// bounded time and memory.
func FuzzLoaded(f *testing.F) {
	// A loader at 0x20, its class at 0x40 with methods at 0x60, one method at 0x70, and the
	// symbol ()V at 0x90 for all names.
	words := make([]byte, 256)
	for at, v := range map[int]byte{8: 0x20, 0x20: 0x40, 0x40: 1, 0x48: 0x90, 0x50: 0x60, 0x60: 1, 0x68: 0x70, 0x70: 0x78, 0x78: 0xa0,
		0x82: 1, 0x84: 5, 0x90: 3, 0x92: '(', 0x93: ')', 0x94: 'V', 0xa8: 0x90, 0xb0: 0x90} {
		words[at] = v
	}
	offsets := []byte{8, 8, 0, 24, 8, 0, 16, 0, 8, 0, 0, 8, 10, 12, 0, 2}
	if all, err := structuresOf(words, offsets).methods(); err != nil || len(all) != 1 || all[0] != (Method{"()V", "()V", "()V", 5}) {
		f.Fatalf("%+v, %v", all, err)
	}
	f.Add(words, offsets)
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0}, make([]byte, len(fields)))
	f.Fuzz(func(t *testing.T, words, offsets []byte) {
		if len(words) > 4*pageBytes || len(offsets) < len(fields) {
			return
		}
		s := structuresOf(words, offsets)
		all, err := s.methods()
		if err != nil {
			return
		}
		if s.visited > s.maxVisited+2 || len(all) > s.maxVisited {
			t.Errorf("%d methods of %d visited", len(all), s.visited)
		}
		for _, method := range all {
			if !utf8.ValidString(method.Function()) || !strings.HasPrefix(method.Descriptor, "(") {
				t.Errorf("%+v", method)
			}
		}
	})
}

// structuresOf returns structures in a memory that begins with words.
func structuresOf(words, offsets []byte) *structures {
	m := &memory{pages: map[uint64][]byte{}, symbols: map[uint64]string{}} // there is no process 0
	for i := 0; i < len(words); i += pageBytes {
		page := make([]byte, pageBytes)
		copy(page, words[i:])
		m.pages[uint64(i/pageBytes)] = page
	}
	s := &structures{memory: m, at: map[string]uint64{}, sizes: map[string]uint64{"ConstantPool": 8}, maxVisited: 1 << 12}
	for i, field := range fields {
		s.at[field] = uint64(offsets[i])
	}
	return s
}
