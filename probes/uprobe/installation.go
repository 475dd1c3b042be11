package uprobe

import (
	"math"
	"sync"

	"github.com/cilium/ebpf"

	"endoscope/operators/batch"
	"endoscope/probes/bpf"
	"endoscope/probes/uprobe/attach"
)

// installation is a query's programs and maps in the kernel, and its links.
type installation struct {
	query   uint16
	objects *ebpf.Collection
	links   []*attach.Link // in the order in which to close them
	leases  []*attach.Lease
	once    sync.Once
	// aggregator is nil where events become rows.
	aggregator *aggregator
	sweeper    *sweeper
	// growing: functions may be added. extended is how often they were, and functions
	// how many there are.
	growing   bool
	extended  uint64
	functions int
	room      int // for more
}

// remove unloads a query whose events have been read.
func (k *kernel) remove(in *installation) {
	in.detach()
	in.endAggregate()
	in.sweeper.wait()
	in.objects.Close()
	k.ids.put(uint32(in.query))
}

// detach closes the links: when it returns, no program of the query runs. (A
// process that is just being started may have copies of the descriptors until it
// executes its program: what comes until then is nobody's.) The kernel takes tens
// of milliseconds for it.
func (in *installation) detach() {
	in.once.Do(func() {
		in.arm(false)
		in.open(false)
		attach.CloseAll(in.links)
	})
}

// arm lets calls pass, or no more: at one instant for all functions, which are
// attached and detached one after the other.
func (in *installation) arm(yes bool) error {
	v := in.objects.Variables[bpf.FunctionVarArmed]
	if v == nil { // no program of the query asks
		return nil
	}
	var n uint64
	if yes {
		n = 1
	}
	return v.Set(n)
}

// open lets events of a sequence pass, or no more: at one instant for all
// functions, which are attached and detached one after the other. And it lets
// those of a query begin that stood by.
func (in *installation) open(yes bool) error {
	v := in.objects.Variables[bpf.FunctionVarOpen]
	if v == nil { // the programs have no sequence
		return nil
	}
	var n uint64
	if yes {
		n = math.MaxUint32
		if in.growing {
			n = uint64(in.functions)
		}
	}
	return v.Set(n)
}

// extend lets calls of the functions begin that were attached last, of which there are
// now so many. From here on each sequence has a gap in front of its next event.
func (in *installation) extend(functions int) error {
	in.functions = functions
	in.extended++
	v := in.objects.Variables[bpf.FunctionVarOpen]
	if v == nil {
		return nil
	}
	return v.Set(in.extended<<32 | uint64(functions))
}

// counters adds up the query's counters of all CPUs. per is reused.
func (in *installation) counters(per *[]bpf.FunctionCounters) (sum bpf.FunctionCounters, err error) {
	if err := in.objects.Maps[bpf.FunctionMapCounts].Lookup(uint32(0), per); err != nil {
		return sum, err
	}
	for _, c := range *per {
		for g := range generations {
			sum.Armed[g] += c.Armed[g]
			sum.Returned[g] += c.Returned[g]
		}
		sum.Lost += c.Lost
		sum.Limited += c.Limited
		sum.Ungrouped += c.Ungrouped
		sum.Foreign += c.Foreign
		sum.Unchecked += c.Unchecked
		sum.Missed += c.Missed
		sum.Nesting += c.Nesting
		sum.Unstored += c.Unstored
		sum.Overflown += c.Overflown
		sum.Inherited += c.Inherited
		sum.Offered += c.Offered
		sum.Shut += c.Shut
		sum.Unreadable += c.Unreadable
		sum.Cut += c.Cut
		sum.TooLarge += c.TooLarge
		sum.Unkept += c.Unkept
		sum.Undefined += c.Undefined
		sum.Carried += c.Carried
	}
	return sum, nil
}

// hits is how often a function was entered since it was attached.
func (in *installation) hits(function uint32, per *[]uint64) (sum uint64) {
	if in.aggregator != nil && in.aggregator.options&noHits != 0 {
		return in.aggregator.entered(int(function))
	}
	if in.objects.Maps[bpf.FunctionMapHits].Lookup(function, per) != nil {
		return 0
	}
	for _, n := range *per {
		sum += n
	}
	return sum
}

// endAggregate ends the collecting of aggregates, and returns what had not been
// given. The query's programs have been detached.
func (in *installation) endAggregate() ([]*batch.Batch, error) {
	if in.aggregator == nil {
		return nil, nil
	}
	return in.aggregator.end()
}
