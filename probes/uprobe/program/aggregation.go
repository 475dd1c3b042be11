package program

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
)

// What becomes of events (enum in query.h).
const (
	dense = 1 << iota
	hashed
	byFunction
	derived
	updated
	untimed
	NoHits
	sketched
)

const (
	// maxStateBytes bounds the memory of a query's groups, and again of its
	// buckets.
	maxStateBytes = 64 << 20
	// maxGroups is how many groups there can be on each CPU, where not the
	// function says which, and maxBuckets how many buckets of groups.
	maxGroups, maxBuckets = 16 << 10, 64 << 10
	// MinPane is longer than it takes to collect a pane: 10 to 20 ms, for which
	// the kernel waits for its programs, and more where all processors are busy.
	MinPane = 250 * time.Millisecond
	// hashOverhead is what an entry of a hash table takes besides key and value.
	hashOverhead = 48
	// Endless is a pane that has no end.
	Endless = 1 << 62

	boundariesMap = "boundaries"
)

// Aggregation is how a query's events are aggregated in the kernel. It does not
// change; aggregator is what runs.
type Aggregation struct {
	partial  *plan.Partial
	Code     *codegen.Aggregate
	Options  uint32
	Pane     int64  // ns, or endless
	inferred int    // functions without probes, whose states follow
	Groups   int    // dense: states of one slot and CPU, padding included
	Cpus     int    // there can be
	keys     string // for Describe
	// preallocated: hash tables have their memory from the beginning.
	preallocated bool
	Limit        int // most entries of a hash table, for tests; 0: as many as usual
}

// CompileAggregation decides whether the kernel runs the first stage of spec's
// aggregate; nil: no. inferred is how many functions follow from ws.
func CompileAggregation(spec *plan.Acquire, f *calls.Filter, ws []calls.Function, inferred int, preallocated bool) *Aggregation {
	part := spec.Partial
	if part == nil || spec.Stream == catalog.FunctionCall || spec.Settings.NoKernel || f.Program.Residual != nil || part.Pane != 0 && part.Pane < MinPane {
		return nil
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil
	}
	code, ok := codegen.CompileAggregate(part, f.Layout, spec.Out.Time, boundariesMap)
	if !ok {
		return nil
	}
	// What follows from a function is known of its own states alone.
	code.ByFunction = code.ByFunction || inferred > 0
	a := &Aggregation{partial: part, Code: code, Pane: int64(part.Pane), Cpus: cpus, inferred: inferred, preallocated: preallocated}
	if a.Pane == 0 {
		a.Pane = Endless
	}
	for _, k := range part.Keys {
		a.keys += ", " + k.String()
	}
	a.keys = strings.TrimPrefix(a.keys, ", ")
	switch {
	case code.StateWords == 0:
	case code.KeyWords > 0:
		a.Options |= hashed
	default:
		a.Options |= dense
		n := 1
		if code.ByFunction {
			n = len(ws)
		}
		a.Groups = padded(n, code.StateWords)
		if 2*a.Cpus*a.Groups*code.StateWords*8 > maxStateBytes {
			return nil
		}
	}
	if code.ByFunction {
		a.Options |= byFunction
	}
	if code.Sketches > 0 {
		a.Options |= sketched
	}
	if code.Derive != nil {
		a.Options |= derived
	}
	if code.Update != nil {
		a.Options |= updated
	}
	if spec.Stream == catalog.FunctionStart && !slices.ContainsFunc(ws, func(w calls.Function) bool { return w.Returns != calls.Unseen }) {
		if !code.Timed && !f.Program.Reads[spec.Out.Time] && a.Pane == Endless {
			a.Options |= untimed
		}
		// A lone count of all entries of each function is how often it was hit.
		if a.Options&(dense|derived|updated) == dense && (code.ByFunction || len(ws) == 1) && f.Program.Entry == nil {
			a.Options |= NoHits
		}
	}
	return a
}

// padded is how many states are kept for n, so that those of one CPU share no
// cache line with those of another.
func padded(n, words int) int {
	const line = 8 // words
	for n*words%line != 0 {
		n++
	}
	return n
}

// Describe says how, for EXPLAIN.
func (a *Aggregation) Describe() string {
	if a == nil {
		return ""
	}
	if a.inferred > 0 {
		return fmt.Sprintf("%s, %d functions inferred", a.groupsBy(), a.inferred)
	}
	return a.groupsBy()
}

func (a *Aggregation) groupsBy() string {
	switch {
	case a.Options&dense != 0 && a.Code.ByFunction:
		return "dense by function"
	case a.Options&dense != 0:
		return "one group"
	case a.Options&hashed != 0:
		return fmt.Sprintf("hash by %s, %d groups", a.keys, a.entries(maxGroups, 1+a.Code.KeyWords, a.Code.StateWords))
	}
	n := a.entries(maxBuckets, 2+a.Code.KeyWords, 1)
	if a.keys == "" {
		return fmt.Sprintf("hash by bucket, %d buckets", n)
	}
	return fmt.Sprintf("hash by %s and bucket, %d buckets", a.keys, n)
}

// entries is how many entries a hash table has of which there are n for a CPU.
func (a *Aggregation) entries(n, keyWords, valueWords int) int {
	n = min(n*a.Cpus, maxStateBytes/2/(hashOverhead+8*keyWords+8*valueWords))
	if a.preallocated {
		n = min(n, preallocated(8*keyWords, 8*valueWords))
	}
	if a.Limit > 0 {
		n = min(n, a.Limit)
	}
	return n
}

// specialise makes the programs and maps in spec those of the aggregation.
func (a *Aggregation) specialise(spec *ebpf.CollectionSpec) error {
	for name, p := range spec.Programs {
		if !abi.TestsOf[name].Call {
			continue
		}
		if err := codegen.Install(p, "derive", a.Code.Derive); err != nil {
			return err
		}
		if err := codegen.Install(p, "update", a.Code.Update); err != nil {
			return err
		}
	}
	for name, value := range map[string]any{
		bpf.FunctionVarAggregate: a.Options,
		bpf.FunctionVarGroups:    uint32(max(1, a.Groups)),
		bpf.FunctionVarCpus:      uint32(a.Cpus),
		bpf.FunctionVarKeyWords:  uint32(a.Code.KeyWords),
		bpf.FunctionVarSketches:  uint32(a.Code.Sketches),
		bpf.FunctionVarPane:      uint64(a.Pane),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return err
		}
	}
	size := func(name string, entries, keyBytes, valueWords int) {
		m := spec.Maps[name]
		m.MaxEntries, m.KeySize, m.ValueSize = uint32(entries), uint32(keyBytes), uint32(8*valueWords)
	}
	if a.Options&dense != 0 {
		size(bpf.FunctionMapStates, 2*a.Cpus*a.Groups, 4, a.Code.StateWords)
	}
	for i := range 2 {
		if key := 1 + a.Code.KeyWords; a.Options&hashed != 0 {
			size(stateMaps[i], a.entries(maxGroups, key, a.Code.StateWords), 8*key, a.Code.StateWords)
		}
		if key := 2 + a.Code.KeyWords; a.Options&sketched != 0 {
			size(bucketMaps[i], a.entries(maxBuckets, key, 1), 8*key, 1)
		}
	}
	return nil
}

var (
	stateMaps  = []string{bpf.FunctionMapStates0, bpf.FunctionMapStates1}
	bucketMaps = []string{bpf.FunctionMapBuckets0, bpf.FunctionMapBuckets1}
)

// unusedMaps are those that a query does not use, which its programs refer to
// nevertheless. a is nil for a query that does not aggregate.
func unusedMaps(a *Aggregation) (list []string) {
	if a == nil || a.Options&dense == 0 {
		list = append(list, bpf.FunctionMapStates)
	}
	if a == nil || a.Options&hashed == 0 {
		list = append(list, stateMaps...)
	}
	if a == nil || a.Options&sketched == 0 {
		list = append(list, bucketMaps...)
	}
	return list
}

// usesBoundaries reports whether a program looks for buckets of quantiles.
func usesBoundaries(spec *ebpf.CollectionSpec) bool {
	for _, p := range spec.Programs {
		for _, i := range p.Instructions {
			if i.Reference() == boundariesMap {
				return true
			}
		}
	}
	return false
}

func boundariesSpec(words int) *ebpf.MapSpec {
	return &ebpf.MapSpec{Name: boundariesMap, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(8 * words), MaxEntries: 1}
}

// newBoundaries makes the map with the boundaries of quantiles' buckets.
func newBoundaries() (*ebpf.Map, error) {
	table, err := codegen.Boundaries()
	if err != nil {
		return nil, err
	}
	m, err := ebpf.NewMap(boundariesSpec(len(table)))
	if err != nil {
		return nil, err
	}
	if err := m.Put(uint32(0), table); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}
