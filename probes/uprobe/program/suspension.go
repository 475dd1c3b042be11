package program

import (
	"errors"

	"endoscope/probes"
	"endoscope/probes/bpf"
)

// maxSuspended is the maximum number of thread names in the programs' map.
const maxSuspended = 256

// Suspend writes the command to the programs' maps: the names first, then the level that
// activates them.
func (in *Installation) Suspend(c probes.Suspend) error {
	level := uint32(suspendNone)
	switch {
	case c.All:
		level = suspendAll
	case len(c.Threads) > maxSuspended:
		return errors.New("uprobe: too many threads are suspended")
	case len(c.Threads) > 0:
		level = suspendSome
	}
	names, v := in.Objects.Maps[bpf.FunctionMapSuspendedNames], in.Objects.Variables[bpf.FunctionVarSuspension]
	if names == nil || v == nil {
		return nil // the programs do not support suspension
	}
	want := map[bpf.FunctionSuspendedName]bool{}
	for _, name := range c.Threads {
		var key bpf.FunctionSuspendedName
		for i := range min(len(name), len(key.Comm)-1) {
			key.Comm[i] = int8(name[i])
		}
		want[key] = true
	}
	var stale []bpf.FunctionSuspendedName
	var key bpf.FunctionSuspendedName
	var set uint8
	for each := names.Iterate(); each.Next(&key, &set); {
		if !want[key] {
			stale = append(stale, key)
		}
	}
	for _, key := range stale {
		if err := names.Delete(key); err != nil {
			return err
		}
	}
	for key := range want {
		if err := names.Put(key, uint8(1)); err != nil {
			return err
		}
	}
	return v.Set(level)
}

// Values of the programs' variable suspension.
const (
	suspendNone = iota
	suspendAll
	suspendSome
)
