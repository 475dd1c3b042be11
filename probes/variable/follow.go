package variable

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"endoscope/probes"
)

// Causes under which is counted what comes of watchpoints that move with pointers.
const (
	moved   = "moments in which watchpoints followed their pointers"
	unseen  = "writes while watchpoints followed their pointers"
	misfits = "variables that could not be watched where a pointer leads"
	stuck   = "watchpoints that could not follow their pointers"
)

// maxFollows is how often watchpoints follow until they are where the pointers still lead;
// after that they do later.
const maxFollows = 16

// followed tells of variables behind pointers what is not seen of them.
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
		notices = append(notices, fmt.Sprintf("watchpoints follow the pointers to %s: what is written there in the moment after a pointer has changed is not seen (the moments are counted)", strings.Join(names, ", ")))
	}
	return notices
}

// settle has the watchpoints of all processes follow the pointers that have changed. What
// is written meanwhile is not seen: the moment is counted, and where a variable has
// something else after it than it was last told to have, that is a row of which it is not
// known who wrote it.
func (s *source) settle(sink probes.Sink) {
	for pid, one := range s.subjects {
		if !one.watch.unsettled || s.watcher.links[pid] == nil {
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

// follow moves the watchpoints of a process until they are where the pointers still lead.
// misfit are those that found no place there.
func (s *source) follow(one *subject) (followed bool, misfit uint64, err error) {
	w := &one.watch
	for range maxFollows {
		at, skewed, ok := w.locate(one.memory)
		if !ok || slices.Equal(at, w.at) {
			w.unsettled = false
			return followed, misfit, nil
		}
		followed = true
		misfit += skewed
		if err := s.watcher.move(one, at); err != nil {
			return followed, misfit, err
		}
	}
	return followed, misfit, nil // and it is tried again
}

// compare compares what the variables behind pointers have now with what the writes until
// now have told, of which the last may be on its way into the ring.
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
