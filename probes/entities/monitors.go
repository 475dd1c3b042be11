package entities

import (
	"slices"
	"strconv"
)

// monitorPlaces are the USDT probes that a Java machine passes when a thread
// blocks on a monitor that another thread holds, when it acquires it, and when
// the holder of a contended monitor releases it; and those of Object.wait. The
// machine reports nothing about uncontended monitors. The holder is read from
// its memory once a thread has waited for a while, and is known while some
// thread waits.
var monitorPlaces = map[string]monitorPlace{
	"usdt:hotspot:monitor__contended__enter":   {begins, monitorKind},
	"usdt:hotspot:monitor__contended__entered": {ends, monitorKind},
	"usdt:hotspot:monitor__contended__exit":    {unlocks, monitorKind},
	"usdt:hotspot:monitor__wait":               {begins, notificationKind},
	"usdt:hotspot:monitor__waited":             {ends, notificationKind},
}

type monitorPlace struct {
	does monitorAction
	kind string
}

type monitorAction uint8

const (
	begins monitorAction = iota
	ends
	unlocks
)

const (
	monitorKind      = "monitor"
	notificationKind = "notification"
)

// await is what a Java thread waits for.
type await struct {
	id, kind string
	monitor  uint64
	asked    int64 // last lookup of the holder, or the begin of the wait
	likely   int   // tid of the holder at that time; 0: unknown
}

// monitor handles a thread that passes one of those probes.
func (w *world) monitor(t *thread, h event) {
	place, ok := monitorPlaces[h.name]
	if !ok {
		return
	}
	p := t.program
	if place.does == unlocks {
		w.release(t, h.arg1)
		return
	}
	id := strconv.Itoa(p.pid) + ":0x" + strconv.FormatUint(h.arg1, 16)
	if place.kind == notificationKind {
		id += " notified" // distinct from a wait to enter the monitor
	}
	if t.awaits != nil { // the end of that wait was not seen, or this event ends another one
		w.endAwait(t)
		if place.does == ends && place.kind == monitorKind && w.isAwaited(p, h.arg1) {
			w.hold(t, w.lock(p, h.arg1, monitorKind), false)
		}
	}
	if place.does == ends {
		return
	}
	t.awaits = &await{id: id, kind: place.kind, monitor: h.arg1, asked: h.time}
	r := row{event: beginWait, entity: id, name: place.kind}
	if l := p.locks[h.arg1]; l != nil && place.kind == monitorKind && len(l.holders) > 0 {
		r.other = l.holders[0].id
	}
	w.event(p, t, r)
}

// endAwait ends the wait of a thread. If no other thread waits, the release of
// the monitor will not be reported, so its holder is forgotten.
func (w *world) endAwait(t *thread) {
	a := t.awaits
	t.awaits = nil
	w.event(t.program, t, row{event: endWait, entity: a.id, name: a.kind})
	if l := t.program.locks[a.monitor]; l != nil && a.kind == monitorKind && !w.isAwaited(t.program, a.monitor) {
		w.forgetHolders(t.program, l)
		w.removeUnused(t.program, a.monitor)
	}
}

func (w *world) isAwaited(p *program, monitor uint64) bool {
	for _, t := range p.threads {
		if t.awaits != nil && t.awaits.kind == monitorKind && t.awaits.monitor == monitor {
			return true
		}
	}
	return false
}

// forgetHolders marks the holders of a monitor as unknown.
func (w *world) forgetHolders(p *program, l *lock) {
	for _, holder := range l.holders {
		w.event(p, holder, row{event: unknown, entity: l.id, name: l.kind})
	}
	l.holders = nil
}

// askOwner looks up the holder of the monitor that a thread has waited for
// longer than waitThreshold. A holder is accepted when two lookups agree: a thread
// that spins before it sleeps produces no event when the monitor changes hands.
func (w *world) askOwner(t *thread) {
	a := t.awaits
	if w.owner == nil || a.kind != monitorKind || w.now-a.asked < waitThreshold {
		return
	}
	a.asked = w.now
	tid, at, ok := w.owner(t.program.pid, a.monitor)
	if !ok {
		a.likely = 0
		return
	}
	if a.likely == tid {
		w.enqueue(event{time: at, kind: owned, pid: t.program.pid, tid: tid, arg1: a.monitor})
	}
	a.likely = tid
}

// own records the holder of a monitor.
func (w *world) own(t *thread, monitor uint64) {
	p := t.program
	if t.awaits != nil && t.awaits.kind == monitorKind && t.awaits.monitor == monitor || !w.isAwaited(p, monitor) {
		return // it has acquired it since, or no thread waits any more
	}
	l := w.lock(p, monitor, monitorKind)
	if slices.Equal(l.holders, []*thread{t}) {
		return
	}
	w.forgetHolders(p, l)
	w.hold(t, l, false)
}
