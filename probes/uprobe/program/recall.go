package program

import (
	"github.com/cilium/ebpf"

	"endoscope/probes/bpf"
	"endoscope/probes/recall"
)

// recallMaps are the maps of queries whose events are recorded, or whose rows recall those of
// another (recall.h).
var recallMaps = []string{bpf.FunctionMapRings, bpf.FunctionMapRecordings, bpf.FunctionMapHolders, bpf.FunctionMapRoutines, bpf.FunctionMapFirings}

// useRecall configures programs that record events, or recall those of another query. A query
// does at most one of them.
func (k *Kernel) useRecall(record, recalls *recall.Set, spec *ebpf.CollectionSpec, replace map[string]*ebpf.Map) error {
	set, does := record, bpf.FunctionVarRecords
	if recalls != nil {
		set, does = recalls, bpf.FunctionVarRecalls
	}
	for _, name := range recallMaps {
		replace[name] = k.unused[name]
	}
	if set == nil {
		return nil
	}
	for name, m := range set.Maps() {
		replace[name] = m
		spec.Maps[name].MaxEntries = m.MaxEntries()
	}
	count, reserve := set.Rings()
	if err := spec.Variables[bpf.FunctionVarRingCount].Set(count); err != nil {
		return err
	}
	if err := spec.Variables[bpf.FunctionVarRingReserve].Set(reserve); err != nil {
		return err
	}
	return spec.Variables[does].Set(true)
}
