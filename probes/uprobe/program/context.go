package program

import (
	"errors"

	"github.com/cilium/ebpf"

	"endoscope/probes/bpf"
)

// contextMaps are the maps of what threads, goroutines and coroutines are inside of
// (context.h).
var contextMaps = []string{bpf.FunctionMapHeres, bpf.FunctionMapElsewheres}

// maxElsewhere limits the goroutines and coroutines that are inside of a context at a time.
// Their memory is allocated as needed.
const maxElsewhere = 1 << 16

// Contexts are the maps that the programs which follow a context share with those that read
// what is inside of it.
type Contexts struct{ maps map[string]*ebpf.Map }

// NewContexts creates the maps.
func (k *Kernel) NewContexts() (*Contexts, error) {
	c := &Contexts{maps: map[string]*ebpf.Map{}}
	for _, name := range contextMaps {
		spec := k.spec.Maps[name].Copy()
		if spec.Type != ebpf.TaskStorage {
			spec.MaxEntries = maxElsewhere
		}
		boundPreallocated(map[string]*ebpf.MapSpec{name: spec})
		m, err := ebpf.NewMap(spec)
		if err != nil {
			c.Close()
			return nil, RefuseLoad(err)
		}
		c.maps[name] = m
	}
	return c, nil
}

// Maps returns the maps by name, for programs of other packages.
func (c *Contexts) Maps() map[string]*ebpf.Map { return c.maps }

// Close releases the maps. Programs that use them keep them.
func (c *Contexts) Close() {
	if c == nil {
		return
	}
	for _, m := range c.maps {
		m.Close()
	}
}

// useContexts configures programs that follow a context, or read what is inside of one.
func (k *Kernel) useContexts(s *Setup, spec *ebpf.CollectionSpec, replace map[string]*ebpf.Map) error {
	for _, name := range contextMaps {
		replace[name] = k.unused[name]
		if s.Contexts != nil {
			replace[name] = s.Contexts.maps[name]
			spec.Maps[name].MaxEntries = replace[name].MaxEntries()
		}
	}
	if s.Contexts == nil {
		return nil
	}
	if f := s.Following; f != nil {
		return errors.Join(
			spec.Variables[bpf.FunctionVarContext].Set(f.Flags),
			spec.Variables[bpf.FunctionVarKeySlot].Set(f.KeySlot),
			spec.Variables[bpf.FunctionVarKeyAt].Set(f.KeyAt))
	}
	return spec.Variables[bpf.FunctionVarContextWords].Set(uint32(s.ContextWords))
}
