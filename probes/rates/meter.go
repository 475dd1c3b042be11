package rates

import (
	"sync"
	"time"
)

const (
	// minSampling is how long a program is sampled without any activity before
	// it is considered idle, and samplingTime how long a busy one is sampled.
	minSampling  = 10 * time.Millisecond
	samplingTime = 20 * time.Millisecond
	// maxSampling limits the time sampled while the caller does other work.
	maxSampling = 50 * time.Millisecond
	// fewSamples do not say how much of its time a program is in its own code: it may have had a
	// processor for an interrupt alone.
	fewSamples = 2
)

// Meter is the state of one estimate. Its methods are called in the order
// Begin, Observe, Estimate, Close, by one goroutine.
type Meter struct {
	ready   chan struct{} // closed when the fields below are set
	sampler *sampler
	counter *counter
	err     error

	mu    sync.Mutex // guards the fields below
	began time.Time  // start of sampling
	took  time.Duration
	timer *time.Timer

	seen    Activity
	targets map[int]bool
	held    float64 // factor of the processor time that the program would have if it were alone
}

// Activity is the result of sampling a program.
type Activity struct {
	// Samples counts samples by process and address in user space.
	Samples map[Spot]int
	// CPUs is the number of processors that the program kept busy, including
	// kernel time on its behalf, or would have kept busy without waiting for
	// others: the share it gets on a busy machine varies.
	CPUs float64
	user float64 // part of CPUs in its own code
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

// pause stops sampling; what was sampled is the program without probes.
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
		m.mu.Lock() // pause may be running
		m.took = max(m.took, 1)
		m.sampler.close()
		m.mu.Unlock()
	}
}

// Observe returns the samples since Begin of the processes with these pids. It
// waits until there are enough, 20 ms from Begin on, or 10 if there are none;
// if the processors are busy, or the program waits for one, 40 ms more, to measure how
// much processor time it wants.
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
	crowd := float64(busy) >= crowded*float64(len(m.sampler.rings))*float64(m.took)/float64(period)
	if crowd || all <= fewSamples && waits(pids) {
		wanted = m.watchDemand(pids)
		read()
	}
	perCPU := float64(period) / float64(m.took)
	a.CPUs, a.user = float64(all)*perCPU, float64(user)*perCPU
	m.held = 1
	switch wanted = min(wanted, float64(len(m.sampler.rings))); {
	case wanted <= a.CPUs:
	case all <= fewSamples: // it is only known to wait
		a.CPUs, a.user, m.held = wanted, wanted, maxHeld
	default:
		m.held = wanted / a.CPUs
		a.CPUs, a.user = wanted, a.user*m.held
	}
	m.seen = a
	return a, nil
}

// watchDemand continues sampling for a while, and returns how many processors
// the processes used or waited for meanwhile.
func (m *Meter) watchDemand(pids []int) float64 {
	before, began := schedules(pids), time.Now()
	m.sampler.enable(true)
	time.Sleep(crowdedTime)
	m.sampler.enable(false)
	took := time.Since(began)
	m.mu.Lock() // the timer's pause may run only now
	m.took += took
	m.mu.Unlock()
	return demand(before, schedules(pids), took)
}

// window is a time in which calls are counted, and the samples in it.
type window struct {
	took time.Duration
	all  int // samples
	user int // in its own code
}

const (
	// maxWaits limits the extension of a window, as a factor, for a program
	// that had no processor, and maxHeldWaits if others use it. maxHeld limits
	// the extension of the whole counting for these.
	maxWaits     = 3
	maxHeldWaits = 25
	maxHeld      = 8
)

// watch waits for d, and longer for a program that had much less processor time
// in d than it wants: it did too little to be measured.
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
