package program

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/operators/batch"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/clock"
	"endoscope/probes/uprobe/calls"
)

// Aggregator collects the states that a query's programs aggregate.
//
// There are two slots of states. Time is divided into panes, and an event is folded into
// the slot of its pane: of the current pane or, unless that slot is being read, of the
// next pane. An event of any other pane is sent to the reader as a row. Collecting a
// pane:
//
//  1. Make the next pane the current one. From now on no program that begins folds into
//     the slot of the finished pane.
//  2. Wait for the programs that began before.
//  3. Read and clear the slot. Nothing else accesses it.
//  4. Send the rows, and open the slot for the pane after the current one.
//
// A query without panes has one pane that begins when the last was collected and does
// not end. A row's time is the beginning of its pane, so watermarks do not pass it until
// the pane has been sent.
type Aggregator struct {
	*Aggregation
	installation *Installation
	Sub          Subscriber
	Reader       Executor
	offset       int64 // from the boot clock to the epoch

	// Mu is held while a slot is collected. It is not held while the reader sends its
	// rows, nor by code that waits for Provider.mu.
	Mu     sync.Mutex
	ended  bool
	slot   int     // of the current pane
	next   bool    // the other slot is open for the next pane
	Begins int64   // the current pane, boot clock
	bound  int64   // boot time that later rows have at the least; 0: the current pane begins then
	hits   []int64 // by dense group, of collected states: see NoHits
	Rows   *partialRows

	page    []byte  // variables of the programs
	panes   *uint64 // two of them: see aggregate.h
	divided *uint64
	states  []byte     // of all dense states, slot 0 first
	samples []byte     // of both slots, slot 0 first; nil if there are no quantiles
	sampled [2]*uint64 // how many were written, by slot
	outer   *ebpf.Map
	inner   *ebpf.Map
	scratch []*tables
}

// Executor is the goroutine that reads the events of programs.
type Executor interface {
	// Post queues f for execution after everything posted earlier. The channel is closed
	// when f has returned.
	Post(f func()) (done <-chan struct{})
	// Do executes f and waits for it.
	Do(f func())
	// DrainAll delivers everything written so far. It is called in the executor.
	DrainAll()
}

// Subscriber receives the output of a query's programs. It is called in the executor.
type Subscriber interface {
	Flush()
	PushPartial(rows []*batch.Batch, bound int64)
	Cut() (probes.Cut, error)
	Account()
}

// MaxUngiven is how many finished panes may wait for the reader.
const MaxUngiven = 8

// afterPane is the delay between the end of a pane and its collection.
const afterPane = 10 * time.Millisecond

// Flags of panes, next to the slot (aggregate.h).
const (
	nextToo  = 2
	paneBits = 2
)

// open maps the memory shared by programs and user space.
func (a *Aggregator) open(objects *ebpf.Collection, variables map[string]*ebpf.VariableSpec) (err error) {
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.page, err = mapped(objects.Maps[".bss"]); err != nil {
		return err
	}
	word := func(variable string, offset int) *uint64 {
		return (*uint64)(unsafe.Pointer(&a.page[int(variables[variable].Offset)+offset]))
	}
	a.panes, a.divided = word(bpf.FunctionVarPanes, 0), word(bpf.FunctionVarDivided, 0)
	for slot := range a.sampled {
		a.sampled[slot] = word(bpf.FunctionVarSampled, slot*sampledStride)
	}
	if a.sampleRoom() > 0 {
		if a.samples, err = mapped(objects.Maps[bpf.FunctionMapSamples]); err != nil {
			return err
		}
	}
	if a.Options&dense != 0 {
		if a.states, err = mapped(objects.Maps[bpf.FunctionMapStates]); err != nil {
			return err
		}
	}
	small := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	if a.inner, err = ebpf.NewMap(small); err != nil {
		return err
	}
	if a.outer, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: small}); err != nil {
		return err
	}
	a.hits = make([]int64, a.Groups)
	a.begin(clock.Boot())
	return nil
}

// mapped maps the values of an array map.
func mapped(m *ebpf.Map) ([]byte, error) {
	page := uint32(unix.Getpagesize())
	size := (m.MaxEntries()*((m.ValueSize()+7)&^7) + page - 1) &^ (page - 1)
	b, err := unix.Mmap(m.FD(), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the states of groups: %w", err)
	}
	return b, nil
}

// Share sets the shares of inferred functions in a call of a probed function, after they
// have changed.
func (a *Aggregator) Share(shares [][]calls.Share) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	a.Rows.shares = shares
}

// close releases what open acquired.
func (a *Aggregator) close() {
	if a.page != nil {
		unix.Munmap(a.page)
	}
	if a.states != nil {
		unix.Munmap(a.states)
	}
	if a.samples != nil {
		unix.Munmap(a.samples)
	}
	a.inner.Close()
	a.outer.Close()
	a.page, a.states, a.samples, a.panes, a.divided, a.sampled = nil, nil, nil, nil, nil, [2]*uint64{}
}

// begin makes the pane that contains now the current one.
func (a *Aggregator) begin(now int64) {
	a.Begins = a.paneOf(now)
	a.publish(a.Pane != Endless)
}

// paneOf returns the beginning of the pane that contains now.
func (a *Aggregator) paneOf(now int64) int64 {
	if a.Pane == Endless {
		return now
	}
	t := now + a.offset
	return t - t%a.Pane - a.offset
}

// publish tells the programs which pane is current, and whether the other slot is free
// for the next one.
func (a *Aggregator) publish(next bool) {
	a.next = next
	word := uint64(a.Begins)<<paneBits | uint64(a.slot)
	if next {
		word |= nextToo
	}
	atomic.StoreUint64(a.panes, word)
}

// waitForPrograms waits for the running programs. The kernel waits for them when an entry of an
// array of maps is changed (maybe_wait_bpf_programs).
func (a *Aggregator) waitForPrograms() error {
	if err := a.outer.Put(uint32(0), a.inner); err != nil {
		return fmt.Errorf("waiting for the programs that run: %w", err)
	}
	return nil
}

// Collect sends everything aggregated before the call. The rest of an unfinished pane
// follows later; its rows are merged.
func (a *Aggregator) Collect() error {
	given, err := a.collectNow()
	if given != nil {
		<-given
	}
	return err
}

// collectNow is Collect without waiting for the reader; given is closed when the reader
// has sent the rows.
func (a *Aggregator) collectNow() (given <-chan struct{}, err error) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if a.ended {
		return nil, nil
	}
	now := clock.Boot()
	if a.Pane == Endless {
		return a.nextPane(now, false)
	}
	if err := a.halve(now); err != nil {
		return nil, err
	}
	return a.nextPane(a.Begins, true)
}

// halve prepares the pane that contains now to be sent in two halves. The second half
// goes into the other slot, where the next pane may have begun.
func (a *Aggregator) halve(now int64) error {
	if _, err := a.collectEndedLocked(now); err != nil {
		return err
	}
	a.publish(false)
	if err := a.waitForPrograms(); err != nil {
		return err
	}
	return a.read(1-a.slot, a.Begins+a.Pane)
}

// collectEnded collects the panes that have ended by now. given is closed when the reader
// has sent them, and nil if there are none.
func (a *Aggregator) collectEnded(now int64) (given <-chan struct{}, err error) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if a.ended {
		return nil, nil
	}
	return a.collectEndedLocked(now)
}

// collectEndedLocked is collectEnded; the caller holds Mu.
func (a *Aggregator) collectEndedLocked(now int64) (given <-chan struct{}, err error) {
	for now >= a.Begins+a.Pane {
		to := a.Begins + a.Pane
		if !a.next {
			// The other slot is empty: go on to the pane that contains now.
			to = a.paneOf(now)
		}
		// After a long pause, as on a machine that slept, the pane in the other slot is
		// over as well. It is closed, and read next.
		if given, err = a.nextPane(to, now < to+a.Pane); err != nil {
			return given, err
		}
	}
	return given, nil
}

// nextPane makes the pane that begins at to the current one, in the other slot, and has the
// reader send the previous one. next says whether to open the previous slot again.
func (a *Aggregator) nextPane(to int64, next bool) (given <-chan struct{}, err error) {
	slot, pane := a.slot, a.Begins
	a.advance(to)
	return a.finish(slot, pane, next, nil)
}

// advance makes the pane that begins at to the current one, in the other slot.
func (a *Aggregator) advance(to int64) {
	a.slot, a.Begins = 1-a.slot, to
	a.publish(false)
}

// finish reads a slot that is closed, and opens it again for the next pane if next is
// true. The reader then sends the rows, in the order of calls, and calls then.
func (a *Aggregator) finish(slot int, pane int64, next bool, then func()) (given <-chan struct{}, err error) {
	if err := a.waitForPrograms(); err != nil {
		return nil, err
	}
	if err := a.read(slot, pane); err != nil {
		return nil, err
	}
	if next {
		a.publish(true)
	}
	batches, bound := a.Rows.take(), a.Begins
	if a.bound > 0 {
		bound = a.bound
	}
	return a.Reader.Post(func() {
		// Events that were sent as rows happened earlier as well.
		a.Reader.DrainAll()
		a.Sub.Flush()
		a.Sub.PushPartial(batches, bound)
		if then != nil {
			then()
		}
	}), nil
}

// end reads what is left when no program runs any more. Nothing is collected after it.
func (a *Aggregator) end() (left []*batch.Batch, err error) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if a.ended {
		return nil, nil
	}
	a.ended = true
	defer a.close()
	if a.Rows == nil {
		return nil, nil // loaded, but never attached
	}
	if err := a.read(a.slot, a.Begins); err != nil {
		return nil, err
	}
	if a.Pane != Endless {
		err = a.read(1-a.slot, a.Begins+a.Pane)
	}
	return a.Rows.take(), err
}

// read makes rows of the states in a slot, and clears it. Nothing else may use the slot
// meanwhile.
func (a *Aggregator) read(slot int, pane int64) error {
	a.Rows.pane = pane + a.offset
	if a.Options&dense != 0 {
		a.readDense(slot)
	}
	if a.Options&hashed != 0 {
		err := a.readTable(stateMaps[slot], 1+a.Code.KeyWords, a.Code.StateWords, a.Rows.group)
		if err != nil {
			return err
		}
	}
	a.readSamples(slot)
	if a.Options&sketched != 0 {
		return a.readTable(bucketMaps[slot], 2+a.Code.KeyWords, a.bucketWords(), a.Rows.bucket)
	}
	return nil
}

// Dense returns the states of a slot as words.
func (a *Aggregator) Dense(slot int) []uint64 {
	all := unsafe.Slice((*uint64)(unsafe.Pointer(&a.states[0])), len(a.states)/8)
	n := a.Cpus * a.Groups * a.Code.StateWords
	return all[slot*n:][:n]
}

func (a *Aggregator) readDense(slot int) {
	words := a.Dense(slot)
	n := a.Code.StateWords
	key := []uint64{0}
	for cpu := range a.Cpus {
		for g := range a.Groups {
			state := words[(cpu*a.Groups+g)*n:][:n]
			events := state[a.Code.Events]
			if events == 0 {
				continue
			}
			key[0] = uint64(g) << 32
			a.Rows.group(key, state)
			a.hits[g] += int64(events)
		}
	}
	a.clearDense(words)
}

// entered returns how often a function of a query with NoHits was entered.
func (a *Aggregator) entered(function int) uint64 {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if !a.Code.ByFunction {
		function = 0
	}
	n := uint64(a.hits[function])
	if a.ended {
		return n
	}
	for slot := range 2 {
		words := a.Dense(slot)
		for cpu := range a.Cpus {
			n += atomic.LoadUint64(&words[cpu*a.Groups+function])
		}
	}
	return n
}

// batchEntries is how many entries of a hash table are read at a time. No chain of the
// table may be longer.
const batchEntries = 4096

// tables are buffers for reading hash tables with keys and values of the given sizes.
type tables struct {
	keyWords, valueWords int
	keys, values         reflect.Value // slices of arrays of words
	key, value           []uint64      // the same memory
}

func newTables(keyWords, valueWords int) *tables {
	make := func(words int) (reflect.Value, []uint64) {
		t := reflect.ArrayOf(words, reflect.TypeFor[uint64]())
		v := reflect.MakeSlice(reflect.SliceOf(t), batchEntries, batchEntries)
		return v, unsafe.Slice((*uint64)(v.UnsafePointer()), batchEntries*words)
	}
	t := &tables{keyWords: keyWords, valueWords: valueWords}
	t.keys, t.key = make(keyWords)
	t.values, t.value = make(valueWords)
	return t
}

func (a *Aggregator) buffers(keyWords, valueWords int) *tables {
	for _, t := range a.scratch {
		if t.keyWords == keyWords && t.valueWords == valueWords {
			return t
		}
	}
	t := newTables(keyWords, valueWords)
	a.scratch = append(a.scratch, t)
	return t
}

// readTable passes the entries of a hash table to f and removes them.
func (a *Aggregator) readTable(name string, keyWords, valueWords int, f func(key, value []uint64)) error {
	m, t := a.installation.Objects.Maps[name], a.buffers(keyWords, valueWords)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookupAndDelete(&cursor, t.keys.Interface(), t.values.Interface(), nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("reading the groups: %w", err)
		}
		for i := range n {
			f(t.key[i*keyWords:][:keyWords], t.value[i*valueWords:][:valueWords])
		}
		if err != nil {
			return nil
		}
	}
}

// Run collects each pane when it has ended, until stop is closed. While the reader is
// busy it continues to advance panes, so that events find an open slot and do not burden
// the reader as rows.
func (a *Aggregator) Run(stop <-chan struct{}, fail func(error)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var ungiven []<-chan struct{}
	for {
		if len(ungiven) == MaxUngiven {
			select {
			case <-ungiven[0]:
				ungiven = slices.Delete(ungiven, 0, 1)
			case <-stop:
				return
			}
		}
		a.Mu.Lock()
		over, ended := a.Begins+a.Pane, a.ended
		a.Mu.Unlock()
		if ended {
			return
		}
		// Slightly after the end: by then most programs that were interrupted between
		// reading the clock and reading the panes have continued.
		timer.Reset(time.Duration(over-clock.Boot()) + afterPane)
		select {
		case <-timer.C:
		case <-stop:
			return
		}
		given, err := a.collectEnded(clock.Boot())
		if err != nil {
			fail(err)
			return
		}
		if given != nil {
			ungiven = append(ungiven, given)
		}
	}
}
