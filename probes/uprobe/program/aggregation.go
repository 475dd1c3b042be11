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

// Options of the first stage of an aggregate (enum in query.h).
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
	// maxStateBytes bounds the memory of a query's groups, and separately that of its
	// buckets.
	maxStateBytes = 64 << 20
	// maxGroups bounds the groups on each CPU where the function is not the only key;
	// maxBuckets bounds the buckets of all groups on each CPU.
	maxGroups, maxBuckets = 16 << 10, 64 << 10
	// MinPane exceeds the time to collect a pane: 10 to 20 ms, in which the kernel waits
	// for running programs, and more where all processors are busy.
	MinPane = 250 * time.Millisecond
	// hashOverhead is the size of a hash table entry in bytes, without key and value.
	hashOverhead = 48
	// Endless is the length of a pane that has no end.
	Endless = 1 << 62

	boundariesMap = "boundaries"
)

// Aggregation describes how a query's events are aggregated in the kernel. It is
// immutable; Aggregator holds the running state.
type Aggregation struct {
	partial  *plan.Partial
	Code     *codegen.Aggregate
	Options  uint32
	Pane     int64  // ns, or endless
	inferred int    // functions without probes, whose states are derived
	Groups   int    // dense: states of one slot and CPU, padding included
	Cpus     int    // possible CPUs
	keys     string // for Describe
	// preallocated: memory of hash tables is allocated when they are created.
	preallocated bool
	Limit        int // maximum entries of a hash table, for tests; 0: the default
}

// CompileAggregation decides whether the kernel runs the first stage of spec's
// aggregate; nil means it does not. inferred is the number of functions whose calls
// follow from ws.
func CompileAggregation(spec *plan.Acquire, f *calls.Filter, ws []calls.Function, inferred int, preallocated bool) *Aggregation {
	part := spec.Partial
	if part == nil || spec.Stream == catalog.FunctionCall || spec.Settings.NoKernel || f.Program.Residual != nil || part.Pane != 0 && part.Pane < MinPane {
		return nil
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil
	}
	visible := *part
	visible.Keys, visible.Aggs = part.Visible()
	code, ok := codegen.CompileAggregate(&visible, f.Layout, spec.Out.Time, boundariesMap)
	if !ok {
		return nil
	}
	// Calls inferred from a function are derived from that function's own states only.
	code.ByFunction = code.ByFunction || inferred > 0 || part.Estimated
	a := &Aggregation{partial: part, Code: code, Pane: int64(part.Pane), Cpus: cpus, inferred: inferred, preallocated: preallocated}
	if a.Pane == 0 {
		a.Pane = Endless
	}
	for _, k := range visible.Keys {
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
		// A lone count of all entries of each function equals the function's hits.
		if a.Options&(dense|derived|updated) == dense && (code.ByFunction || len(ws) == 1) && f.Program.Entry == nil && !part.Estimated {
			a.Options |= NoHits
		}
	}
	return a
}

// padded returns how many states are allocated for n, so that states of one CPU share no
// cache line with those of another.
func padded(n, words int) int {
	const line = 8 // words
	for n*words%line != 0 {
		n++
	}
	return n
}

// Describe returns the description of the aggregation for EXPLAIN.
func (a *Aggregation) Describe() string {
	if a == nil {
		return ""
	}
	text := a.groupsBy()
	if a.Code.Exact() {
		text += fmt.Sprintf(", quantiles exact to %d values of a group and %d of all", codegen.ExactSamples, a.sampleRoom())
	}
	if a.inferred > 0 {
		text += fmt.Sprintf(", %d functions inferred", a.inferred)
	}
	return text
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
	n := a.entries(maxBuckets, 2+a.Code.KeyWords, a.bucketWords())
	if a.keys == "" {
		return fmt.Sprintf("hash by bucket, %d buckets", n)
	}
	return fmt.Sprintf("hash by %s and bucket, %d buckets", a.keys, n)
}

// bucketWords returns the size of a bucket's state: its count and, for quantiles, its
// largest and its smallest value.
func (a *Aggregation) bucketWords() int {
	if a.Code.Exact() {
		return 3
	}
	return 1
}

// entries returns the size of a hash table that should hold n entries for each CPU.
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

// specialise configures the programs and maps in spec for the aggregation.
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
	var counts [codegen.MaxSketches]uint32
	for i, word := range a.Code.Samples {
		counts[i] = uint32(word + 1)
	}
	for name, value := range map[string]any{
		bpf.FunctionVarSampleCounts: counts,
		bpf.FunctionVarSampleRoom:   uint32(a.sampleRoom()),
		bpf.FunctionVarExactSamples: uint32(codegen.ExactSamples),
		bpf.FunctionVarAggregate:    a.Options,
		bpf.FunctionVarGroups:       uint32(max(1, a.Groups)),
		bpf.FunctionVarCpus:         uint32(a.Cpus),
		bpf.FunctionVarKeyWords:     uint32(a.Code.KeyWords),
		bpf.FunctionVarSketches:     uint32(a.Code.Sketches),
		bpf.FunctionVarPane:         uint64(a.Pane),
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
	if n := a.sampleRoom(); n > 0 {
		size(bpf.FunctionMapSamples, 2*n, 4, a.sampleWords())
	}
	for i := range 2 {
		if key := 1 + a.Code.KeyWords; a.Options&hashed != 0 {
			size(stateMaps[i], a.entries(maxGroups, key, a.Code.StateWords), 8*key, a.Code.StateWords)
		}
		if key := 2 + a.Code.KeyWords; a.Options&sketched != 0 {
			words := a.bucketWords()
			size(bucketMaps[i], a.entries(maxBuckets, key, words), 8*key, words)
		}
	}
	return nil
}

var (
	stateMaps  = []string{bpf.FunctionMapStates0, bpf.FunctionMapStates1}
	bucketMaps = []string{bpf.FunctionMapBuckets0, bpf.FunctionMapBuckets1}
)

// unusedMaps lists the maps that a query does not use but its programs refer to. a is
// nil for a query that does not aggregate.
func unusedMaps(a *Aggregation) (list []string) {
	if a == nil || a.Options&dense == 0 {
		list = append(list, bpf.FunctionMapStates)
	}
	if a == nil || a.sampleRoom() == 0 {
		list = append(list, bpf.FunctionMapSamples)
	}
	if a == nil || a.Options&(hashed|derived|sketched) == 0 {
		list = append(list, bpf.FunctionMapDerivedWords)
	}
	if a == nil || a.Options&hashed == 0 {
		list = append(list, stateMaps...)
	}
	if a == nil || a.Options&sketched == 0 {
		list = append(list, bucketMaps...)
	}
	return list
}

// usesBoundaries reports whether a program looks up buckets of quantiles.
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

// newBoundaries creates the map with the boundaries of quantile buckets.
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
