package program

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"endoscope/operators/batch"
	"endoscope/probes/bpf"
	"endoscope/probes/uprobe/attach"
)

// Installation holds a query's programs and maps in the kernel, and its links.
type Installation struct {
	Query   uint16
	Objects *ebpf.Collection
	Links   []*attach.Link // in the order in which they are closed
	Leases  []*attach.Lease
	once    sync.Once
	// Aggregator is nil where events become rows.
	Aggregator *Aggregator
	Sweeper    *sweeper
	// growing: functions may be added. extended counts the additions, and functions is
	// the number of functions.
	growing   bool
	extended  uint64
	functions int
	Room      int       // number of functions that can still be added
	spending  *spending // nil: the query has no budget
	family    *family   // nil: children of the target's processes do not matter
}

// Remove unloads a query whose events have been read.
func (k *Kernel) Remove(in *Installation) {
	in.Detach()
	in.EndAggregate()
	in.Sweeper.Wait()
	in.spending.close()
	in.Objects.Close()
	k.ids.put(uint32(in.Query))
}

// Detach closes the links: when it returns, no program of the query runs. (A process
// that is being started may hold copies of the descriptors until it calls exec; events
// until then are ignored.) The kernel takes tens of milliseconds for it.
func (in *Installation) Detach() {
	in.once.Do(func() {
		in.Arm(false)
		in.Open(false)
		if in.spending != nil { // there are many links
			attach.BeginCloseAll(in.Links)()
		} else {
			attach.CloseAll(in.Links)
		}
		if in.family != nil {
			attach.CloseAll(in.family.links)
		}
	})
}

// Arm enables or disables calls at one instant for all functions, because they are
// attached and detached one after the other.
func (in *Installation) Arm(yes bool) error {
	v := in.Objects.Variables[bpf.FunctionVarArmed]
	if v == nil { // no program of the query reads it
		return nil
	}
	var n uint64
	if yes {
		n = 1
	}
	return v.Set(n)
}

// Open enables or disables events of a sequence at one instant for all functions,
// because they are attached and detached one after the other. It also starts a query on
// standby.
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

// Extend enables the functions that were attached last; functions is their new number.
// From here on each sequence has a gap in front of its next event.
func (in *Installation) Extend(functions int) error {
	in.functions = functions
	return in.setOpen(uint64(functions))
}

// MarkGap has each sequence of an open query have a gap in front of its next event. The returns of
// calls that began before now, by the boot clock, may be missing.
func (in *Installation) MarkGap(now int64) error {
	if v := in.Objects.Variables[bpf.FunctionVarSince]; v != nil {
		if err := v.Set(uint64(now)); err != nil {
			return err
		}
	}
	return in.setOpen(math.MaxUint32)
}

// setOpen opens a sequence to so many functions, after a gap.
func (in *Installation) setOpen(functions uint64) error {
	in.extended++
	v := in.Objects.Variables[bpf.FunctionVarOpen]
	if v == nil {
		return nil
	}
	return v.Set(in.extended<<32 | functions)
}

// Counters returns the sum of the query's counters over all CPUs. per is reused.
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
		sum.Unlisted += c.Unlisted
		sum.Carried += c.Carried
		sum.Waited += c.Waited
		sum.Waiting += c.Waiting
		sum.Children += c.Children
		sum.Unfollowed += c.Unfollowed
		sum.Hidden += c.Hidden
		sum.Unopened += c.Unopened
		sum.Unclosed += c.Unclosed
	}
	if in.family != nil {
		sum.Children += in.family.existed.Load()
	}
	return sum, nil
}

// Hits returns how often a function was entered since it was attached.
func (in *Installation) Hits(function uint32, per *[]uint64) (sum uint64) {
	if in.Aggregator != nil && in.Aggregator.Options&NoHits != 0 {
		return in.Aggregator.entered(int(function))
	}
	if in.spending != nil {
		return atomic.LoadUint64(in.spending.hits(int(function)))
	}
	if in.Objects.Maps[bpf.FunctionMapHits].Lookup(function, per) != nil {
		return 0
	}
	for _, n := range *per {
		sum += n
	}
	return sum
}

// AllHits returns Hits of each function, with at most one system call. per is reused.
func (in *Installation) AllHits(per *[]uint64) ([]uint64, error) {
	if in.spending != nil {
		return in.PricedHits(), nil
	}
	m := in.Objects.Maps[bpf.FunctionMapHits]
	if in.Aggregator != nil && in.Aggregator.Options&NoHits != 0 {
		sums := make([]uint64, m.MaxEntries())
		for i := range sums {
			sums[i] = in.Aggregator.entered(i)
		}
		return sums, nil
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	n := int(m.MaxEntries())
	if len(*per) < n*cpus {
		*per = make([]uint64, n*cpus)
	}
	keys := make([]uint32, n)
	var cursor ebpf.MapBatchCursor
	if _, err := m.BatchLookup(&cursor, keys, (*per)[:n*cpus], nil); err != nil && !isEnd(err) {
		return nil, err
	}
	sums := make([]uint64, n)
	for i, key := range keys {
		for _, x := range (*per)[i*cpus:][:cpus] {
			sums[key] += x
		}
	}
	return sums, nil
}

// EndAggregate ends the collection of aggregates, and returns the rows not yet sent. The
// query's programs have been detached.
func (in *Installation) EndAggregate() ([]*batch.Batch, error) {
	if in.Aggregator == nil {
		return nil, nil
	}
	return in.Aggregator.end()
}
