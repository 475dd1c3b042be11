package rates

import (
	"sync"
	"time"
)

const (
	// minSampling is how long a program has to be seen doing nothing to be
	// called idle, and samplingTime how long one that is busy is sampled.
	minSampling  = 10 * time.Millisecond
	samplingTime = 20 * time.Millisecond
	// maxSampling bounds what is sampled while the caller is at other things.
	maxSampling = 50 * time.Millisecond
)

// Meter is one estimate in the making. Its methods are called in the order
// Begin, Observe, Estimate, Close, from one goroutine.
type Meter struct {
	ready   chan struct{} // closed when the following are set
	sampler *sampler
	counter *counter
	err     error

	mu    sync.Mutex // guards the following
	began time.Time  // of sampling
	took  time.Duration
	timer *time.Timer

	seen    Activity
	targets map[int]bool
	held    float64 // how many times as much processor time the program would have if it were alone
}

// Activity is what samples tell of a program.
type Activity struct {
	// Samples counts samples by process and address in user space.
	Samples map[Spot]int
	// CPUs is how many processors the program kept busy, its kernel's work
	// included, or would have if it had not had to wait for others: what it is
	// given of a busy machine is another thing from one moment to the next.
	CPUs float64
	user float64 // of these, in its own code
}

// Spot is an address in a process.
type Spot struct {
	PID  int
	Addr uint64
}

// Begin starts sampling the machine, in the background. Close must follow.
func Begin() *Meter {
	m := &Meter{ready: make(chan struct{})}
	go func() {
		defer close(m.ready)
		if m.sampler, m.err = openSampler(); m.err != nil {
			return
		}
		m.mu.Lock()
		m.began = time.Now()
		m.timer = time.AfterFunc(maxSampling, m.pause)
		m.mu.Unlock()
		m.counter, m.err = newCounter()
	}()
	return m
}

// pause ends the sampling of the program as it is without probes.
func (m *Meter) pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.took == 0 {
		m.sampler.enable(false)
		m.took = time.Since(m.began)
	}
}

// Close ends the sampling; when it returns nothing is attached any more.
func (m *Meter) Close() {
	<-m.ready
	if m.timer != nil {
		m.timer.Stop()
	}
	if m.counter != nil {
		m.counter.close()
	}
	if m.sampler != nil {
		m.mu.Lock() // a pause may be under way
		m.took = max(m.took, 1)
		m.sampler.close()
		m.mu.Unlock()
	}
}

// Observe returns what was seen since Begin of the processes with these pids.
// It waits until there are samples enough, 20 ms from Begin on, or 10 where
// there are none; where the processors are busy 40 ms more, to see how much of
// them the program would like to have.
func (m *Meter) Observe(pids []int) (Activity, error) {
	<-m.ready
	if m.err != nil {
		return Activity{}, m.err
	}
	m.targets = map[int]bool{}
	for _, pid := range pids {
		m.targets[pid] = true
	}
	a := Activity{Samples: map[Spot]int{}}
	busy, all, user := 0, 0, 0
	read := func() {
		m.sampler.read(func(s sample) {
			busy++
			if !m.targets[s.pid] {
				return
			}
			all++
			if s.user {
				user++
				a.Samples[Spot{s.pid, s.ip}]++
			}
		})
	}
	for _, until := range []time.Duration{minSampling, samplingTime} {
		time.Sleep(time.Until(m.began.Add(until)))
		if until == samplingTime {
			m.pause()
		}
		if read(); all == 0 {
			break
		}
	}
	m.pause()
	wanted := 0.0
	if float64(busy) >= crowded*float64(len(m.sampler.rings))*float64(m.took)/float64(period) {
		wanted = m.watchDemand(pids)
		read()
	}
	perCPU := float64(period) / float64(m.took)
	a.CPUs, a.user = float64(all)*perCPU, float64(user)*perCPU
	m.held = 1
	switch wanted = min(wanted, float64(len(m.sampler.rings))); {
	case wanted <= a.CPUs:
	case all == 0: // nothing is known of it, but that it waits
		a.CPUs, a.user, m.held = wanted, wanted, maxHeld
	default:
		m.held = wanted / a.CPUs
		a.CPUs, a.user = wanted, a.user*m.held
	}
	m.seen = a
	return a, nil
}

// watchDemand goes on sampling for a while, and returns how many processors
// processes used or waited for meanwhile.
func (m *Meter) watchDemand(pids []int) float64 {
	before, began := schedules(pids), time.Now()
	m.sampler.enable(true)
	time.Sleep(crowdedTime)
	m.sampler.enable(false)
	took := time.Since(began)
	m.mu.Lock() // the timer's pause may come only now
	m.took += took
	m.mu.Unlock()
	return demand(before, schedules(pids), took)
}

// window is a time in which calls are counted, and what the program did in it.
type window struct {
	took time.Duration
	all  int // samples
	user int // of its own code
}

const (
	// maxWaits is how many times as long is waited, at most, for a program that
	// had no processor, and maxHeldWaits where others take it. maxHeld bounds how
	// much longer all of the counting takes for these.
	maxWaits     = 3
	maxHeldWaits = 25
	maxHeld      = 8
)

// watch waits for d, and longer for a program that has had much less processor
// time than it would like in d: then little could be seen.
func (m *Meter) watch(d time.Duration) (w window) {
	waits := maxWaits
	if m.held > 1 {
		waits = maxHeldWaits
	}
	m.sampler.read(func(sample) {})
	m.sampler.enable(true)
	began := time.Now()
	for range waits {
		time.Sleep(d)
		m.sampler.read(func(s sample) {
			if m.targets[s.pid] {
				w.all++
				if s.user {
					w.user++
				}
			}
		})
		w.took = time.Since(began)
		if float64(w.all+1) >= m.seen.CPUs*float64(d)/float64(period)*3/4 {
			break
		}
	}
	m.sampler.enable(false)
	return w
}
