package program

import (
	"slices"

	"endoscope/probes/bpf"
	"endoscope/probes/uprobe/attach"
)

// TakeLinks removes and returns the links that are restricted to a process and were made
// at or before the boot time until. The caller holds the provider's mutex.
func (in *Installation) TakeLinks(pid int, until int64) (taken []*attach.Link) {
	is := func(l *attach.Link) bool { return l.PID == pid && l.Made <= until }
	for _, l := range in.Links {
		if is(l) {
			taken = append(taken, l)
		}
	}
	in.Links = slices.DeleteFunc(slices.Clone(in.Links), is)
	return taken
}

// MarkMissed tells the programs that calls of process pid, which executes image, were
// missed up to the boot time until.
func (in *Installation) MarkMissed(pid int, image uint64, until int64) error {
	for _, v := range []struct {
		name  string
		value uint64
	}{
		{bpf.FunctionVarReattachUntil, uint64(until)},
		{bpf.FunctionVarReattachImage, image},
		{bpf.FunctionVarReattachPid, uint64(pid)},
	} {
		variable := in.Objects.Variables[v.name]
		if variable == nil {
			return nil // the programs have no sequence
		}
		if err := variable.Set(v.value); err != nil {
			return err
		}
	}
	return nil
}
