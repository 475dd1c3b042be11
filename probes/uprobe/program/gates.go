package program

import (
	"github.com/cilium/ebpf"

	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/uprobe/abi"
)

// useGates configures programs for the gates that they check and open.
func (k *Kernel) useGates(g probes.Gates, spec *ebpf.CollectionSpec, options *uint32, replace map[string]*ebpf.Map) error {
	replace[bpf.FunctionMapGates] = k.unused[bpf.FunctionMapGates]
	if g.Set == nil {
		return nil
	}
	replace[bpf.FunctionMapGates] = g.Set.Map()
	spec.Maps[bpf.FunctionMapGates].MaxEntries = g.Set.Map().MaxEntries()
	if g.Own != nil {
		*options |= abi.Gated
		if err := spec.Variables[bpf.FunctionVarOwnGate].Set(uint32(g.Own.Index)); err != nil {
			return err
		}
	}
	var index, within [probes.MaxOpened]uint64
	for i, o := range g.Opens {
		index[i], within[i] = uint64(o.Gate.Index), uint64(o.Within)
	}
	if err := spec.Variables[bpf.FunctionVarOpens].Set(uint32(len(g.Opens))); err != nil {
		return err
	}
	if err := spec.Variables[bpf.FunctionVarOpenedGates].Set(index); err != nil {
		return err
	}
	return spec.Variables[bpf.FunctionVarOpenedWithin].Set(within)
}
