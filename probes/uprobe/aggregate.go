package uprobe

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
	noHits
	sketched
)

const (
	// maxStateBytes bounds the memory of a query's groups, and again of its
	// buckets.
	maxStateBytes = 64 << 20
	// maxGroups is how many groups there can be on each CPU, where not the
	// function says which, and maxBuckets how many buckets of groups.
	maxGroups, maxBuckets = 16 << 10, 64 << 10
	// minPane is longer than it takes to collect a pane: 10 to 20 ms, for which
	// the kernel waits for its programs, and more where all processors are busy.
	minPane = 250 * time.Millisecond
	// hashOverhead is what an entry of a hash table takes besides key and value.
	hashOverhead = 48
	// endless is a pane that has no end.
	endless = 1 << 62

	boundariesMap = "boundaries"
)

// aggregation is how a query's events are aggregated in the kernel. It does not
// change; aggregator is what runs.
type aggregation struct {
	partial  *plan.Partial
	code     *codegen.Aggregate
	options  uint32
	pane     int64  // ns, or endless
	inferred int    // functions without probes, whose states follow
	groups   int    // dense: states of one slot and CPU, padding included
	cpus     int    // there can be
	keys     string // for Describe
	// preallocated: hash tables have their memory from the beginning.
	preallocated bool
	limit        int // most entries of a hash table, for tests; 0: as many as usual
}

// compileAggregate decides whether the kernel runs the first stage of spec's
// aggregate; nil: no. inferred is how many functions follow from ws.
func compileAggregate(spec *plan.Acquire, f *filter, ws []calls.Function, inferred int, preallocated bool) *aggregation {
	part := spec.Partial
	if part == nil || spec.Stream == catalog.FunctionCall || spec.Settings.NoKernel || f.program.Residual != nil || part.Pane != 0 && part.Pane < minPane {
		return nil
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil
	}
	code, ok := codegen.CompileAggregate(part, f.layout, spec.Out.Time, boundariesMap)
	if !ok {
		return nil
	}
	// What follows from a function is known of its own states alone.
	code.ByFunction = code.ByFunction || inferred > 0
	a := &aggregation{partial: part, code: code, pane: int64(part.Pane), cpus: cpus, inferred: inferred, preallocated: preallocated}
	if a.pane == 0 {
		a.pane = endless
	}
	for _, k := range part.Keys {
		a.keys += ", " + k.String()
	}
	a.keys = strings.TrimPrefix(a.keys, ", ")
	switch {
	case code.StateWords == 0:
	case code.KeyWords > 0:
		a.options |= hashed
	default:
		a.options |= dense
		n := 1
		if code.ByFunction {
			n = len(ws)
		}
		a.groups = padded(n, code.StateWords)
		if 2*a.cpus*a.groups*code.StateWords*8 > maxStateBytes {
			return nil
		}
	}
	if code.ByFunction {
		a.options |= byFunction
	}
	if code.Sketches > 0 {
		a.options |= sketched
	}
	if code.Derive != nil {
		a.options |= derived
	}
	if code.Update != nil {
		a.options |= updated
	}
	if spec.Stream == catalog.FunctionStart && !slices.ContainsFunc(ws, func(w calls.Function) bool { return w.Returns != calls.Unseen }) {
		if !code.Timed && !f.program.Reads[spec.Out.Time] && a.pane == endless {
			a.options |= untimed
		}
		// A lone count of all entries of each function is how often it was hit.
		if a.options&(dense|derived|updated) == dense && (code.ByFunction || len(ws) == 1) && f.program.Entry == nil {
			a.options |= noHits
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

// describe says how, for EXPLAIN.
func (a *aggregation) describe() string {
	if a == nil {
		return ""
	}
	if a.inferred > 0 {
		return fmt.Sprintf("%s, %d functions inferred", a.groupsBy(), a.inferred)
	}
	return a.groupsBy()
}

func (a *aggregation) groupsBy() string {
	switch {
	case a.options&dense != 0 && a.code.ByFunction:
		return "dense by function"
	case a.options&dense != 0:
		return "one group"
	case a.options&hashed != 0:
		return fmt.Sprintf("hash by %s, %d groups", a.keys, a.entries(maxGroups, 1+a.code.KeyWords, a.code.StateWords))
	}
	n := a.entries(maxBuckets, 2+a.code.KeyWords, 1)
	if a.keys == "" {
		return fmt.Sprintf("hash by bucket, %d buckets", n)
	}
	return fmt.Sprintf("hash by %s and bucket, %d buckets", a.keys, n)
}

// entries is how many entries a hash table has of which there are n for a CPU.
func (a *aggregation) entries(n, keyWords, valueWords int) int {
	n = min(n*a.cpus, maxStateBytes/2/(hashOverhead+8*keyWords+8*valueWords))
	if a.preallocated {
		n = min(n, preallocated(8*keyWords, 8*valueWords))
	}
	if a.limit > 0 {
		n = min(n, a.limit)
	}
	return n
}

// specialise makes the programs and maps in spec those of the aggregation.
func (a *aggregation) specialise(spec *ebpf.CollectionSpec) error {
	for name, p := range spec.Programs {
		if !abi.TestsOf[name].Call {
			continue
		}
		if err := codegen.Install(p, "derive", a.code.Derive); err != nil {
			return err
		}
		if err := codegen.Install(p, "update", a.code.Update); err != nil {
			return err
		}
	}
	for name, value := range map[string]any{
		bpf.FunctionVarAggregate: a.options,
		bpf.FunctionVarGroups:    uint32(max(1, a.groups)),
		bpf.FunctionVarCpus:      uint32(a.cpus),
		bpf.FunctionVarKeyWords:  uint32(a.code.KeyWords),
		bpf.FunctionVarSketches:  uint32(a.code.Sketches),
		bpf.FunctionVarPane:      uint64(a.pane),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return err
		}
	}
	size := func(name string, entries, keyBytes, valueWords int) {
		m := spec.Maps[name]
		m.MaxEntries, m.KeySize, m.ValueSize = uint32(entries), uint32(keyBytes), uint32(8*valueWords)
	}
	if a.options&dense != 0 {
		size(bpf.FunctionMapStates, 2*a.cpus*a.groups, 4, a.code.StateWords)
	}
	for i := range 2 {
		if key := 1 + a.code.KeyWords; a.options&hashed != 0 {
			size(stateMaps[i], a.entries(maxGroups, key, a.code.StateWords), 8*key, a.code.StateWords)
		}
		if key := 2 + a.code.KeyWords; a.options&sketched != 0 {
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
func unusedMaps(a *aggregation) (list []string) {
	if a == nil || a.options&dense == 0 {
		list = append(list, bpf.FunctionMapStates)
	}
	if a == nil || a.options&hashed == 0 {
		list = append(list, stateMaps...)
	}
	if a == nil || a.options&sketched == 0 {
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
