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
	targets func(pid int) bool
}

// Activity is what samples tell of a program.
type Activity struct {
	// Samples counts samples by process and address in user space.
	Samples map[Spot]int
	// CPUs is how many processors the program kept busy, its kernel's work
	// included.
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

// Observe returns what was seen since Begin of the processes that target
// accepts. It waits until there are samples enough, 20 ms from Begin on, or 10
// where there are none.
func (m *Meter) Observe(target func(pid int) bool) (Activity, error) {
	<-m.ready
	if m.err != nil {
		return Activity{}, m.err
	}
	m.targets = target
	a := Activity{Samples: map[Spot]int{}}
	all, user := 0, 0
	for _, until := range []time.Duration{minSampling, samplingTime} {
		time.Sleep(time.Until(m.began.Add(until)))
		if until == samplingTime {
			m.pause()
		}
		m.sampler.read(func(s sample) {
			if !target(s.pid) {
				return
			}
			all++
			if s.user {
				user++
				a.Samples[Spot{s.pid, s.ip}]++
			}
		})
		if all == 0 {
			break
		}
	}
	m.pause()
	perCPU := float64(period) / float64(m.took)
	a.CPUs, a.user = float64(all)*perCPU, float64(user)*perCPU
	m.seen = a
	return a, nil
}

// window is a time in which calls are counted, and what the program did in it.
type window struct {
	took time.Duration
	user int // samples of its own code
}

// watch waits for d, and up to three times as long for a program that had no
// processor: then nothing could be seen.
func (m *Meter) watch(d time.Duration) (w window) {
	m.sampler.read(func(sample) {})
	m.sampler.enable(true)
	began := time.Now()
	for range 3 {
		time.Sleep(d)
		m.sampler.read(func(s sample) {
			if s.user && m.targets(s.pid) {
				w.user++
			}
		})
		w.took = time.Since(began)
		if float64(w.user) >= m.expected(w)/8 {
			break
		}
	}
	m.sampler.enable(false)
	return w
}

// expected is how many samples there would be in a window without probes.
func (m *Meter) expected(w window) float64 {
	return m.seen.user * float64(w.took) / float64(period)
}
