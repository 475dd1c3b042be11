package fleet

import (
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// part is one host's share of a result.
type part struct {
	name   string
	member *member
	res    wire.Result // nil if it returned none
	err    error       // why there is no result or no more rows; nil if neither

	// Only the reader of the gathered result accesses the fields below.
	over   bool      // it returns nothing more
	lost   bool      // it ended with an error, or was dropped
	drop   bool      // what it still sends is released
	mark   int64     // all its rows before this time were received, by its clock, ns since 1970
	heard  time.Time // when it last sent rows or a watermark
	silent bool      // it is not waited for, and the user was notified
	queue  []*batch.Batch
	queued int   // rows of queue, where these are the states of one result
	row    int   // index in queue[0] of the first row not yet returned
	newest int64 // time of its newest returned row, by this machine's clock, ns since 1970; 0 if none
	rounds []round
	base   uint64         // number of the round before its first; less than 0 wraps around
	epoch  uint64         // of its newest round, of a shard
	round  uint64         // number of its newest round, from base on
	early  int            // results since it had few rounds that were newer than these
	last   []*batch.Batch // its newest totals up to the round that was returned last
	latest uint64         // their number at the host
	has    bool           // there are such totals, perhaps without rows
	sent   []delivery     // results of a host that keeps them until they are stored; guarded by gathered.mu

	number int64 // distinguishes it from the other parts
	looked looked
}

// round is the totals of a host.
type round struct {
	n    uint64
	sent uint64 // its number at the host
	rows []*batch.Batch
}

// delivery is a result of a host: its number, and the end of its last window.
type delivery struct {
	round uint64
	end   int64
}

// keeping is a host's result that the host keeps until it is stored.
type keeping interface {
	// Stored is called when the results of the host up to one of this number are stored.
	Stored(round uint64)
}

// delivered notes a result of a host, which that keeps until it is stored.
func (g *gathered) delivered(p *part, round uint64, end int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.sent = append(p.sent, delivery{round, end})
}

// stored lets a host drop the results of which all windows end at a time or before. The caller
// holds gathered.mu.
func (p *part) stored(upto int64) {
	n := 0
	for n < len(p.sent) && p.sent[n].end <= upto {
		n++
	}
	if n == 0 {
		return
	}
	if of, ok := p.res.(keeping); ok {
		of.Stored(p.sent[n-1].round)
	}
	p.sent = p.sent[n:]
}

// take empties the queue of a host. With discard the rows are released.
func (p *part) take(discard bool) []*batch.Batch {
	all := p.queue
	p.queue, p.queued = nil, 0
	if discard {
		release(all)
		return nil
	}
	return all
}

// arriving reports whether rows of a host have arrived that were not read yet: this machine
// may be busier than the host.
func (p *part) arriving(within time.Duration) bool {
	return time.Since(p.res.Summary().Arrived) < within
}

// first returns the first n rows of b at most, and releases b.
func first(b *batch.Batch, n int64) *batch.Batch {
	if n >= int64(b.Len()) {
		return b
	}
	rows := make([]uint16, max(n, 0))
	for i := range rows {
		rows[i] = uint16(b.Row(i))
	}
	defer b.Release()
	return b.View(rows)
}

// hostColumn returns a column with a host's name in every row.
func hostColumn(name string) *batch.Column {
	d := batch.NewDict()
	d.Code(name)
	return &batch.Column{Type: types.Varchar, Code: make([]uint32, batch.MaxRows), Dict: d, Values: d.Values()}
}

func release(batches []*batch.Batch) {
	for _, b := range batches {
		b.Release()
	}
}
