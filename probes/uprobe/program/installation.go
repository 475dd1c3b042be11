package program

import (
	"math"
	"sync"

	"github.com/cilium/ebpf"

	"endoscope/operators/batch"
	"endoscope/probes/bpf"
	"endoscope/probes/uprobe/attach"
)

// Installation is a query's programs and maps in the kernel, and its links.
type Installation struct {
	Query   uint16
	Objects *ebpf.Collection
	Links   []*attach.Link // in the order in which to close them
	Leases  []*attach.Lease
	once    sync.Once
	// Aggregator is nil where events become rows.
	Aggregator *Aggregator
	Sweeper    *sweeper
	// growing: functions may be added. extended is how often they were, and functions
	// how many there are.
	growing   bool
	extended  uint64
	functions int
	Room      int // for more
}

// Remove unloads a query whose events have been read.
func (k *Kernel) Remove(in *Installation) {
	in.Detach()
	in.EndAggregate()
	in.Sweeper.Wait()
	in.Objects.Close()
	k.ids.put(uint32(in.Query))
}

// Detach closes the links: when it returns, no program of the query runs. (A
// process that is just being started may have copies of the descriptors until it
// executes its program: what comes until then is nobody's.) The kernel takes tens
// of milliseconds for it.
func (in *Installation) Detach() {
	in.once.Do(func() {
		in.Arm(false)
		in.Open(false)
		attach.CloseAll(in.Links)
	})
}

// Arm lets calls pass, or no more: at one instant for all functions, which are
// attached and detached one after the other.
func (in *Installation) Arm(yes bool) error {
	v := in.Objects.Variables[bpf.FunctionVarArmed]
	if v == nil { // no program of the query asks
		return nil
	}
	var n uint64
	if yes {
		n = 1
	}
	return v.Set(n)
}

// Open lets events of a sequence pass, or no more: at one instant for all
// functions, which are attached and detached one after the other. And it lets
// those of a query begin that stood by.
func (in *Installation) Open(yes bool) error {
	v := in.Objects.Variables[bpf.FunctionVarOpen]
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

// Extend lets calls of the functions begin that were attached last, of which there are
// now so many. From here on each sequence has a gap in front of its next event.
func (in *Installation) Extend(functions int) error {
	in.functions = functions
	in.extended++
	v := in.Objects.Variables[bpf.FunctionVarOpen]
	if v == nil {
		return nil
	}
	return v.Set(in.extended<<32 | uint64(functions))
}

// Counters adds up the query's counters of all CPUs. per is reused.
func (in *Installation) Counters(per *[]bpf.FunctionCounters) (sum bpf.FunctionCounters, err error) {
	if err := in.Objects.Maps[bpf.FunctionMapCounts].Lookup(uint32(0), per); err != nil {
		return sum, err
	}
	for _, c := range *per {
		for g := range Generations {
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

// Hits is how often a function was entered since it was attached.
func (in *Installation) Hits(function uint32, per *[]uint64) (sum uint64) {
	if in.Aggregator != nil && in.Aggregator.Options&NoHits != 0 {
		return in.Aggregator.entered(int(function))
	}
	if in.Objects.Maps[bpf.FunctionMapHits].Lookup(function, per) != nil {
		return 0
	}
	for _, n := range *per {
		sum += n
	}
	return sum
}

// EndAggregate ends the collecting of aggregates, and returns what had not been
// given. The query's programs have been detached.
func (in *Installation) EndAggregate() ([]*batch.Batch, error) {
	if in.Aggregator == nil {
		return nil, nil
	}
	return in.Aggregator.end()
}
