package uprobe

import (
	"math/rand/v2"
	"time"

	"endoscope/probes/clock"
	"endoscope/probes/process"
	"endoscope/probes/progress"
	"endoscope/probes/rates"
	"endoscope/probes/uprobe/slicing"
)

const (
	// chunk is how many functions without calls share a link, which is replaced when one of them
	// is called often; if there are few, each has its own.
	chunk, few = 64, 32
	// countTime is how long the program runs while calls are counted before functions are
	// observed all the time, and patience how long that is waited for.
	countTime, patience = time.Millisecond, 50 * time.Millisecond
	// countLimit is what counting may cost before it is cut short.
	countLimit = 100 * time.Microsecond
	// rare is the most by which a function may slow the program that is observed all the
	// time.
	rare = 0.0005
	// samplings is how often the program is sampled to find hot functions.
	samplings = 4
	// beginTime is how long attaching may take so that it stays within the budget.
	beginTime = 4 * time.Second
	// suspected is the dilation of a function that is not known yet.
	suspected = 2 * slicing.MostDilation
)

// begin finds out how often functions are called, chooses those that are observed all the
// time and attaches these. When it returns the query has begun. What that costs is spread over
// beginTime, and is no part of the query's account: some programs would have to wait for a
// minute.
func (s *slicer) begin() (err error) {
	s.in, s.out = s.always.installation(), s.sliced.installation()
	if s.in == nil || s.out == nil {
		return errStopped
	}
	if s.meter, err = progress.Open(s.always.pids()); err != nil {
		return err
	}
	hot, cpus, err := s.sample()
	if err != nil {
		return err
	}
	s.account.Begin(cpus)
	s.sharers = s.always.provider.queries()
	s.cost()
	s.looked = s.cost()
	before := s.looked
	others, err := s.choose(hot, cpus)
	if err != nil {
		return err
	}
	s.settle()
	s.preparing = s.looked.since(before)
	s.account.Begin(s.account.CPUs())
	s.pack(others)
	s.stale = true
	s.in.Limit(uint64(s.account.Earning() * float64(burst)))
	if err := s.in.Arm(true); err != nil {
		return err
	}
	s.pane = s.paneOf(clock.Boot())
	s.begun = s.cost()
	s.refreshed = s.begun.at
	for _, f := range others {
		s.ledger.Begin(f, s.series, s.begun.net())
	}
	return nil
}

// settle adds what was spent since the last look to the account, and returns it.
func (s *slicer) settle() spending {
	now := s.cost()
	d := now.since(s.looked)
	s.account.Add(d.took, d.net(), d.hits()+d.engine, 0)
	s.looked = now
	return d
}

// sample returns the functions in which the program was found while it was sampled, and how
// many processors it uses.
func (s *slicer) sample() (hot map[int]bool, cpus float64, err error) {
	hot = map[int]bool{}
	for range samplings {
		m := rates.Begin()
		var running []int
		for _, pid := range s.always.pids() {
			if !process.Stopped(pid) {
				running = append(running, pid)
			}
		}
		activity, err := m.Observe(running)
		if err == nil && activity.CPUs > 0 {
			cpus = max(cpus, activity.CPUs)
			for i, c := range candidates(s.always, activity) {
				if c.Samples > 0 {
					hot[i] = true
				}
			}
		}
		m.Close()
		if err != nil || activity.CPUs == 0 {
			return hot, cpus, err // an idle program: what its functions cost shows when it runs
		}
	}
	return hot, cpus, nil
}

// choose attaches the functions that are observed all the time, some at a time, at the pace
// that the budget allows, and counts their calls for a moment: those that are not rare are
// returned, to be observed in slices.
func (s *slicer) choose(hot map[int]bool, cpus float64) (others []int, err error) {
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
	rand.Shuffle(len(quiet), func(i, j int) { quiet[i], quiet[j] = quiet[j], quiet[i] })
	some := chunk
	if len(s.functions) <= few {
		some = 1
	}
	for began := time.Now(); len(quiet) > 0; {
		which := quiet[:min(some, len(quiet))]
		quiet = quiet[len(which):]
		if cpus == 0 {
			_, err = s.attachAlways(which)
		} else {
			var busy []int
			var spent time.Duration
			if spent, busy, err = s.count(which); spent > countLimit {
				some = max(some/2, 1)
			} else if spent < countLimit/4 && len(s.functions) > few {
				some = min(some*2, chunk)
			}
			others = append(others, busy...)
		}
		if err != nil {
			return nil, err
		}
		// What attaching costs is earned as far as there is time for it, and later otherwise.
		left := max(beginTime-time.Since(began), 0) / time.Duration(1+len(quiet)/some)
		for until := time.Now().Add(left); ; {
			others = append(others, s.retire(s.settle(), 0)...)
			if err := s.leave(); err != nil {
				return nil, err
			}
			wait := min(s.account.Wait(), time.Until(until))
			if wait <= 0 {
				break
			}
			if err := s.pause(wait); err != nil {
				return nil, err
			}
		}
	}
	return others, nil
}

// pause waits, unless the source ends, or functions that are observed all the time cost too
// much: they may have been quiet while they were counted.
func (s *slicer) pause(d time.Duration) error {
	s.in.Limit(uint64(countLimit))
	for end := time.Now().Add(d); time.Now().Before(end) && int64(s.in.Spent())-s.looked.always < int64(countLimit); {
		s.in.Await(time.Until(end))
		select {
		case <-s.stop:
			return errStopped
		default:
		}
	}
	return nil
}

// count attaches functions and counts their calls for a moment. It returns what that cost, and
// the functions that are not rare, which it detaches again.
func (s *slicer) count(which []int) (spent time.Duration, busy []int, err error) {
	before := s.in.PricedHits()
	from, began := s.in.Spent(), s.meter.Read()
	s.in.Limit(uint64(countLimit))
	links, err := s.attachAlways(which)
	if err != nil {
		return 0, nil, err
	}
	at := s.meter.Read() // the last of them are attached only now
	for end := time.Now().Add(patience); time.Now().Before(end) && s.in.Spent()-from < uint64(countLimit) && s.meter.Read()-at < int64(countTime); {
		s.in.Watch(countTime)
	}
	all := time.Duration(s.in.Spent() - from) // other functions' calls are in it
	net := float64(max(s.meter.Read()-began-int64(all), int64(countTime/10)))
	if all < countLimit/10 && len(s.functions) > few {
		return 0, nil, nil // what is rare is not known better
	}
	after := s.in.PricedHits()
	var rest []int
	for _, i := range which {
		f, n := &s.functions[i], float64(after[i]-before[i])
		spent += time.Duration(n * f.Price)
		if f.Rate = n / net; n > 1 && f.Dilation() > rare {
			busy = append(busy, i)
		} else {
			rest = append(rest, i)
		}
	}
	if len(busy) == 0 {
		return spent, nil, nil
	}
	s.detachAlways(links)
	if len(rest) > 0 {
		_, err = s.attachAlways(rest)
	}
	return spent, busy, err
}
