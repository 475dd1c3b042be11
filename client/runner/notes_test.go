package runner

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// Lines that do not fit are counted, and the count precedes the next line.
func TestNotes(t *testing.T) {
	n := NewNotes()
	for i := range 300 {
		n.Add(fmt.Sprintf("note %d\x1b[2J", i))
	}
	var b bytes.Buffer
	n.Print(&b)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 257 || lines[0] != "notice: 44 notifications could not be shown" || lines[1] != `note 0\x1b[2J` || lines[256] != `note 255\x1b[2J` {
		t.Errorf("%d lines, from %q to %q", len(lines), lines[:2], lines[len(lines)-1])
	}
	b.Reset()
	n.Print(&b)
	if b.Len() != 0 {
		t.Errorf("they are told twice: %q", b.String())
	}
	if none := (*Notes)(nil); none.C() != nil {
		t.Error("of no notes there is a channel")
	}
}
