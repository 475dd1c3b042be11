package variable

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"endoscope/probes"
)

// Causes counted for watchpoints that follow pointers.
const (
	moved   = "changes of pointers that watchpoints followed"
	unseen  = "writes while watchpoints followed their pointers"
	misfits = "variables that could not be watched where a pointer leads"
	stuck   = "watchpoints that could not follow their pointers"
)

// maxFollows limits the moves in one pass until the watchpoints are where the
// pointers lead; the rest follows in the next pass.
const maxFollows = 16

// followed returns notices about what is not seen of variables behind pointers.
func (s *source) followed() (notices []string) {
	var names []string
	for _, one := range s.subjects {
		for _, v := range one.variables {
			if len(v.follow) > 0 && !slices.Contains(names, v.name) {
				names = append(names, v.name)
			}
		}
	}
	if len(names) > 0 {
		notices = append(notices, fmt.Sprintf("watchpoints follow the pointers to %s: writes there just after a pointer has changed are not seen (the changes are counted)", strings.Join(names, ", ")))
	}
	return notices
}

// moveOutdated moves the watchpoints of all processes after the pointers that have
// changed. Writes during a move are not seen: the move is counted, and if a
// variable's value differs from its last reported one afterwards, it becomes a
// row without a writer.
func (s *source) moveOutdated(sink probes.Sink) {
	for pid, one := range s.subjects {
		if !one.watch.outdated || s.watcher.links[pid] == nil {
			continue
		}
		followed, lost, err := s.follow(one)
		if lost > 0 {
			sink.Count(misfits, lost)
		}
		if err != nil {
			sink.Lost(stuck, 1)
		}
		if followed {
			sink.Count(moved, 1)
			s.compare(one, sink)
		}
	}
}

// follow moves the watchpoints of a process until they are where the pointers
// lead. misfit is the number of those that could not be set.
func (s *source) follow(one *subject) (followed bool, misfit uint64, err error) {
	w := &one.watch
	for range maxFollows {
		at, skewed, ok := w.locate(one.memory)
		if !ok || slices.Equal(at, w.at) {
			w.outdated = false
			return followed, misfit, nil
		}
		followed = true
		misfit += skewed
		if err := s.watcher.move(one, at); err != nil {
			return followed, misfit, err
		}
	}
	return followed, misfit, nil // tried again later
}

// compare compares the current values of variables behind pointers with the
// last reported ones. The last write may still be on its way into the ring.
func (s *source) compare(one *subject, sink probes.Sink) {
	w := &one.watch
	when := s.clock()
	now := map[int]value{}
	for i := range one.variables {
		if v := &one.variables[i]; len(v.follow) > 0 {
			if value, is := v.read(one.memory); is != unknown {
				now[i] = value
			}
		}
	}
	for attempt := range 2 {
		if attempt > 0 {
			time.Sleep(time.Millisecond)
		}
		s.collect(sink)
		maps.DeleteFunc(now, func(i int, v value) bool {
			return w.last[i].time == 0 || w.last[i].time > when || w.last[i].value.equal(v)
		})
		if len(now) == 0 {
			return
		}
	}
	for i, v := range now {
		w.last[i] = last{when, v}
		if v.cut {
			s.cut++
		}
		s.rows.Put(observation{time: when, subject: one, name: one.variables[i].name, module: one.variables[i].module, value: v})
		sink.Lost(unseen, 1)
	}
	s.rows.Flush()
}
