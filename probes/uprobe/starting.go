package uprobe

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"endoscope/probes/clock"
	"endoscope/probes/process"
	"endoscope/probes/progress"
	"endoscope/probes/rates"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/slicing"
)

const (
	// most is how many functions are attached at a time; if there are few, one by one.
	most, few = 128, 32
	// idleChunk is how many functions of an idle program share a link, more if there are more
	// than mostLinks of these. A link is replaced when one of its functions is called often, and
	// then the others move to a new one: of an idle program that can be many at a time, when
	// load comes. Each link costs 0.25 ms and four descriptors.
	idleChunk, mostLinks = 16, 512
	// countTime is how long the program runs while calls are counted before functions are
	// observed all the time, and patience how long that is waited for.
	countTime, patience = time.Millisecond, 50 * time.Millisecond
	// countLimit is what counting may cost before it is cut short.
	countLimit = 100 * time.Microsecond
	// rare is the most by which a function may slow the program that is observed all the
	// time.
	rare = 0.0005
	// samplings is how often the program is sampled to find hot functions.
	samplings = 2
	// firstLook is how long the program is looked at before, to tell whether it is nearly idle.
	firstLook = 100 * time.Millisecond
	// beginTime is how long attaching may take so that it stays within the budget.
	beginTime = 4 * time.Second
	// suspected is the dilation of a function that is not known yet.
	suspected = 2 * slicing.MostDilation
)

// begin finds out how often functions are called, chooses those that are observed all the
// time and attaches these. When it returns the query has begun. What that costs is spread over
// beginTime, and repaid by the slices of some seconds afterwards: at the pace that the budget
// allows, some programs would have to wait for a minute.
func (s *slicer) begin() (err error) {
	s.in, s.out = s.always.installation(), s.sliced.installation()
	if s.in == nil || s.out == nil && s.sliced != nil {
		return errStopped
	}
	if s.meter, err = progress.Open(s.always.pids()); err != nil {
		return err
	}
	s.sharers = s.always.provider.queries()
	s.prepared = (processTime() - s.prepared) / s.sharers
	s.cost(forUpkeep)
	s.came = s.cost(forUpkeep)
	s.looked = s.came
	schedules := rates.ReadSchedules(s.always.pids())
	if err := s.pause(firstLook); err != nil {
		return err
	}
	took := time.Since(s.came.at)
	used, busiest := rates.ReadSchedules(s.always.pids()).Since(schedules, took)
	busy := max(used, busiest) > s.account.Floor || schedules == nil // it has many threads
	if s.chunk = most; !busy {
		for s.chunk = idleChunk; s.chunk < most && s.chunk*mostLinks < len(s.functions); s.chunk *= 2 {
		}
	}
	var hot map[int]bool
	cpus := 0.0
	if busy {
		if hot, cpus, err = s.sample(); err != nil {
			return err
		}
	}
	s.account.Begin(cpus)
	var others []int
	if s.whole() {
		others = s.all()
	} else if others, err = s.choose(hot, busy); err != nil {
		return err
	}
	s.settle(forAttaching)
	s.account.Spread()
	s.pack(others)
	s.stale = true
	s.in.Limit(uint64(s.account.Earning() * float64(burst)))
	if err := s.in.Arm(true); err != nil {
		return err
	}
	s.pane = s.paneOf(clock.Boot())
	s.begun = s.cost(forAttaching)
	s.refreshed = s.begun.at
	for _, f := range others {
		s.ledger.Begin(f, s.series, s.begun.net())
	}
	return nil
}

// settle adds what was spent since the last look to the account, and returns it. What the
// engine has used since it was read last was for u.
func (s *slicer) settle(u use) spending {
	now := s.cost(u)
	d := now.since(s.looked)
	s.account.Add(d.took, d.net(), d.hits()+d.own()-d.engine[forUpkeep], d.engine[forUpkeep])
	s.looked = now
	s.recent.add(d, s.account.Floor)
	return d
}

// sample returns the functions in which the program was found while it was sampled, and how
// many processors it uses.
func (s *slicer) sample() (hot map[int]bool, cpus float64, err error) {
	all := rates.Activity{Samples: map[rates.Spot]int{}}
	for range samplings {
		m := rates.Begin()
		var running []int
		for _, pid := range s.always.pids() {
			if !process.Stopped(pid) {
				running = append(running, pid)
			}
		}
		activity, err := m.Observe(running)
		m.Close()
		if err != nil {
			return nil, 0, err
		}
		all.CPUs = max(all.CPUs, activity.CPUs)
		for spot, n := range activity.Samples {
			all.Samples[spot] += n
		}
	}
	hot = map[int]bool{}
	for i, c := range candidates(s.always, all) {
		if c.Samples > 0 {
			hot[i] = true
		}
	}
	return hot, all.CPUs, nil
}

// choose attaches the functions that are observed all the time, some at a time, at the pace
// that the budget allows. It counts their calls for a moment, unless the program is nearly
// idle: those that are not rare are returned, to be observed in slices.
func (s *slicer) choose(hot map[int]bool, busy bool) (others []int, err error) {
	var quiet []int
	for i := range s.functions {
		switch w := &s.always.resolution.Functions[i]; {
		case w.Refused || w.Module.Written:
		case hot[i]:
			s.functions[i].Rate = suspected / s.functions[i].Price
			others = append(others, i)
		default:
			quiet = append(quiet, i)
		}
	}
	quiet = s.scatter(quiet)
	some := most
	if len(s.functions) <= few && busy {
		some = 1
	}
	for until := time.Now().Add(beginTime); len(quiet) > 0; {
		which := quiet[:min(some, len(quiet))]
		quiet = quiet[len(which):]
		if busy {
			var dear []int
			var spent time.Duration
			if spent, dear, err = s.count(which); spent > countLimit {
				some = max(some/2, 1)
			} else if spent < countLimit/4 && len(s.functions) > few {
				some = min(some*2, most)
			}
			others = append(others, dear...)
		} else {
			_, err = s.attachAlways(which, nil)
		}
		if err != nil {
			return nil, err
		}
		// What attaching costs is earned as far as there is time for it, and later otherwise.
		gone, err := s.earn(max(time.Until(until), 0) / time.Duration(1+len(quiet)/some))
		if err != nil {
			return nil, err
		}
		others = append(others, gone...)
	}
	return others, nil
}

// all returns all functions, which have to be observed together. The first slice is short.
func (s *slicer) all() (list []int) {
	for i := range s.functions {
		if w := &s.always.resolution.Functions[i]; !w.Refused && !w.Module.Written {
			list = append(list, i)
		}
	}
	for _, i := range list {
		s.functions[i].Rate = 1 / (max(s.functions[i].Price, 1) * float64(len(list)))
	}
	return list
}

// scatter returns functions in the order in which they are attached: neighbours of a process together, since
// they are called together, and a link is replaced when one of its functions is called often;
// but otherwise in random order, so that parts of the program with many calls are not counted at
// the same time.
func (s *slicer) scatter(which []int) []int {
	at := func(i int) *calls.Function { return &s.always.resolution.Functions[i] }
	slices.SortFunc(which, func(i, j int) int {
		return cmp.Or(strings.Compare(at(i).Module.Path, at(j).Module.Path), cmp.Compare(at(i).Scope.PID, at(j).Scope.PID), cmp.Compare(at(i).Site.Offset, at(j).Site.Offset))
	})
	parts := slices.Collect(slices.Chunk(which, most))
	rand.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return slices.Concat(parts...)
}

// earn waits until what was spent is earned, but no longer than d. It returns functions that
// are not observed all the time any more, since they cost too much meanwhile.
func (s *slicer) earn(d time.Duration) (gone []int, err error) {
	until := time.Now().Add(d)
	for u := forAttaching; ; u = forUpkeep {
		alarmed := s.alarmed()
		gone = append(gone, s.retire(s.settle(u), 0)...)
		if err := s.leave(); err != nil {
			return nil, err
		}
		wait := min(s.account.Wait(), time.Until(until))
		// What waiting costs is earned with what is attached next.
		if wait <= 0 || u == forUpkeep && !alarmed {
			return gone, nil
		}
		if err := s.pause(wait); err != nil {
			return nil, err
		}
	}
}

// pause waits, unless the source ends, or functions that are observed all the time cost too
// much: they may have been quiet while they were counted.
func (s *slicer) pause(d time.Duration) error {
	s.most = int64(countLimit) + int64(alwaysShare*s.account.Earning()*float64(d))
	s.in.Limit(uint64(s.most))
	for end := time.Now().Add(d); time.Now().Before(end) && !s.alarmed(); {
		s.in.Await(time.Until(end))
		select {
		case <-s.stop:
			return errStopped
		default:
		}
	}
	return nil
}

// alarmed reports whether functions that are observed all the time have cost too much since the
// last look for the time of a pause.
func (s *slicer) alarmed() bool { return int64(s.in.Spent())-s.looked.always >= s.most }

// count attaches functions and counts their calls for a moment. It returns what that cost, and
// the functions that are not rare, which it detaches again.
func (s *slicer) count(which []int) (spent time.Duration, busy []int, err error) {
	before := s.in.PricedHits()
	from, began := s.in.Spent(), s.meter.Read()
	s.in.Limit(uint64(countLimit))
	made, err := s.attachAlways(which, nil)
	if err != nil {
		return 0, nil, err
	}
	at := s.meter.Read() // the last of them are attached only now
	wait := countTime
	for end := time.Now().Add(patience); time.Now().Before(end) && s.in.Spent()-from < uint64(countLimit) && s.meter.Read()-at < int64(countTime); wait *= 2 {
		s.in.Watch(min(wait, time.Until(end)))
	}
	all := time.Duration(s.in.Spent() - from) // other functions' calls are in it
	net := float64(max(s.meter.Read()-began-int64(all), int64(countTime/10)))
	if all < countLimit/10 && len(s.functions) > few {
		return 0, nil, nil // what is rare is not known better
	}
	after := s.in.PricedHits()
	var rest []int
	for _, c := range made {
		var quiet []int
		for _, i := range c.functions {
			f, n := &s.functions[i], float64(after[i]-before[i])
			spent += time.Duration(n * f.Price)
			if f.Rate = n / net; n <= 1 || f.Dilation() <= rare {
				quiet = append(quiet, i)
			} else {
				busy = append(busy, i)
			}
		}
		if len(quiet) < len(c.functions) {
			rest = append(rest, quiet...)
			s.detachAlways(c)
		}
	}
	_, err = s.attachAlways(rest, nil)
	return spent, busy, err
}
