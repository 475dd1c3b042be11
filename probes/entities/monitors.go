package entities

import (
	"slices"
	"strconv"
)

// monitorPlaces are the places that a Java machine passes when a monitor is wanted
// that another thread has, when that ends, and when who has one that others wait for
// lets go of it; and those of Object.wait. Of monitors that nobody waits for it tells
// nothing: who has one is asked of the machine once somebody has waited for a while,
// and known from then on while somebody does.
var monitorPlaces = map[string]monitorPlace{
	"usdt:hotspot:monitor__contended__enter":   {begins, monitorKind},
	"usdt:hotspot:monitor__contended__entered": {ends, monitorKind},
	"usdt:hotspot:monitor__contended__exit":    {lets, monitorKind},
	"usdt:hotspot:monitor__wait":               {begins, notificationKind},
	"usdt:hotspot:monitor__waited":             {ends, notificationKind},
}

type monitorPlace struct {
	does monitorAction
	of   string
}

type monitorAction uint8

const (
	begins monitorAction = iota
	ends
	lets
)

const (
	monitorKind      = "monitor"
	notificationKind = "notification"
)

// await is what a thread of Java waits for.
type await struct {
	id, of  string
	monitor uint64
	asked   int64 // when it was asked who has it, or the wait began
	likely  int   // who had it then, by tid; 0: nobody knows
}

// monitor is of a thread that passes one of those places.
func (w *world) monitor(t *thread, h happening) {
	place, ok := monitorPlaces[h.name]
	if !ok {
		return
	}
	p := t.program
	if place.does == lets {
		w.release(t, h.arg1)
		return
	}
	id := strconv.Itoa(p.pid) + ":0x" + strconv.FormatUint(h.arg1, 16)
	if place.of == notificationKind {
		id += " notified" // another wait than that for the monitor
	}
	if t.awaits != nil { // its end was not seen, or this is another's
		w.endAwait(t)
		if place.does == ends && place.of == monitorKind && w.isAwaited(p, h.arg1) {
			w.hold(t, w.lock(p, h.arg1, monitorKind), false)
		}
	}
	if place.does == ends {
		return
	}
	t.awaits = &await{id: id, of: place.of, monitor: h.arg1, asked: h.time}
	r := row{event: beginWait, entity: id, name: place.of}
	if l := p.locks[h.arg1]; l != nil && place.of == monitorKind && len(l.holders) > 0 {
		r.other = l.holders[0].id
	}
	w.event(p, t, r)
}

// endAwait ends what a thread waits for. Where nobody else does, it will not be told
// when who has the monitor lets go of it.
func (w *world) endAwait(t *thread) {
	a := t.awaits
	t.awaits = nil
	w.event(t.program, t, row{event: endWait, entity: a.id, name: a.of})
	if l := t.program.locks[a.monitor]; l != nil && a.of == monitorKind && !w.isAwaited(t.program, a.monitor) {
		w.forgetHolders(t.program, l)
		w.settle(t.program, a.monitor)
	}
}

func (w *world) isAwaited(p *program, monitor uint64) bool {
	for _, t := range p.threads {
		if t.awaits != nil && t.awaits.of == monitorKind && t.awaits.monitor == monitor {
			return true
		}
	}
	return false
}

// forgetHolders says that it is not known any more who has a monitor.
func (w *world) forgetHolders(p *program, l *lock) {
	for _, holder := range l.holders {
		w.event(p, holder, row{event: unknown, entity: l.id, name: l.kind})
	}
	l.holders = nil
}

// askOwner finds out who has the monitor for which a thread waits, if it has waited
// for long. An answer is believed when it is given twice: a thread that has not yet
// gone to sleep is not told when the monitor changes hands.
func (w *world) askOwner(t *thread) {
	a := t.awaits
	if w.owner == nil || a.of != monitorKind || w.now-a.asked < patience {
		return
	}
	a.asked = w.now
	tid, at, ok := w.owner(t.program.pid, a.monitor)
	if !ok {
		a.likely = 0
		return
	}
	if a.likely == tid {
		w.later(happening{time: at, kind: owned, pid: t.program.pid, tid: tid, arg1: a.monitor})
	}
	a.likely = tid
}

// own takes in who has a monitor.
func (w *world) own(t *thread, monitor uint64) {
	p := t.program
	if t.awaits != nil && t.awaits.of == monitorKind && t.awaits.monitor == monitor || !w.isAwaited(p, monitor) {
		return // it has come to have it since, or nobody waits any more
	}
	l := w.lock(p, monitor, monitorKind)
	if slices.Equal(l.holders, []*thread{t}) {
		return
	}
	w.forgetHolders(p, l)
	w.hold(t, l, false)
}
