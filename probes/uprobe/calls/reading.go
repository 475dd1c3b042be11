package calls

import (
	"fmt"
	"math"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/uprobe/abi"
)

// Reading adapts the programs to read a query's values.
type Reading struct {
	entry, result *codegen.Reader
	textBytes     int
}

// Specialise changes the programs and maps in spec to read the values. returns are the
// ways in which the functions' returns are observed. wait is nil where the programs do not
// wait for memory.
func (r *Reading) Specialise(spec *ebpf.CollectionSpec, options uint32, returns map[Returns]bool, wait *codegen.Waiting) error {
	type body struct {
		function string
		reader   *codegen.Reader
		wait     *codegen.Waiting
	}
	bodies := []body{{"read_entry", r.entry, nil}, {"read_return", r.result, nil}}
	if wait != nil {
		bodies = append(bodies, body{"fetch_entry", r.entry, wait}, body{"fetch_return", r.result, wait})
	}
	for _, part := range bodies {
		if part.reader == nil {
			continue
		}
		code, err := part.reader.Compile(ValuePlaces, part.wait)
		if err != nil {
			return err
		}
		for name, p := range spec.Programs {
			if !abi.TestsOf[name].Call || !codegen.Calls(p, part.function) {
				continue
			}
			if err := codegen.Install(p, part.function, code); err != nil {
				return err
			}
		}
	}
	if err := spec.Variables[bpf.FunctionVarResultArgs].Set(r.resultArgs()); err != nil {
		return err
	}
	if options&abi.UseTexts == 0 {
		return nil
	}
	slots := 0
	if options&abi.KeepTexts != 0 && returns[Trapped] {
		slots = max(1, min(maxCalls, maxKept/r.textBytes))
	}
	size := uint32(textsAt + (slots+1)*r.textBytes)
	if size > math.MaxUint16-512 {
		return fmt.Errorf("texts of %d bytes are more than can be read of a call", r.textBytes)
	}
	m := spec.Maps[bpf.FunctionMapScratch]
	m.ValueSize = size
	// Task storage requires BTF for its values.
	m.Value = &btf.Array{Index: &btf.Int{Name: "unsigned int", Size: 4}, Type: &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}, Nelems: size}
	if returns[AtExits] && options&abi.KeepTexts != 0 {
		m := spec.Maps[bpf.FunctionMapOpenCalls]
		m.ValueSize += uint32(r.textBytes)
		m.Key, m.Value = nil, nil
	}
	if err := spec.Variables[bpf.FunctionVarTextBytes].Set(uint32(r.textBytes)); err != nil {
		return err
	}
	return spec.Variables[bpf.FunctionVarTextSlots].Set(uint32(slots))
}

// ReadsMemory reports whether values in memory are read.
func (r *Reading) ReadsMemory() bool {
	return r != nil && (r.entry.ReadsMemory() || r.result.ReadsMemory())
}

// resultArgs returns the set of args that hold results, one bit each.
func (r *Reading) resultArgs() (bits uint32) {
	if r.result == nil {
		return 0
	}
	for _, c := range r.result.Columns {
		if !c.Text && c.Slot < RetvalSlot {
			bits |= 1 << c.Slot
		}
	}
	return bits
}

// Identity returns a key that is equal only for equal readings.
func (r *Reading) Identity() string {
	if r == nil {
		return ""
	}
	out := strconv.Itoa(r.textBytes)
	for _, x := range []*codegen.Reader{r.entry, r.result} {
		if x != nil {
			out += x.Identity()
		}
	}
	return out
}

// maxCalls bounds a thread's open calls with return traps (calls.h).
const maxCalls = 64
