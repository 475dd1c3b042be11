package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Directory finds containers. It is safe for concurrent use.
type Directory struct {
	asking    sync.Mutex
	endpoints func() []Endpoint      // those whose socket exists; guarded by asking
	open      map[EndpointID]Runtime // guarded by asking
	failing   bool                   // a runtime did not answer last; guarded by asking

	mu     sync.Mutex
	groups map[string]*Container // by control group
	named  map[string]*Container // by id, as the runtimes said
	failed map[string]time.Time  // by id: when no runtime knew it
	errs   map[EndpointID]error  // its last error
}

// Limits.
const (
	patience   = 5 * time.Second  // with all runtimes together, whose machine may be busy
	impatience = time.Second      // if one of them did not answer last
	waiting    = 10 * time.Second // of a user
	retryAfter = 2 * time.Second  // for a container that no runtime knows
	maxGroups  = 10_000
)

// Default is the directory of this machine. It knows no runtime before SetRuntimes.
var Default = New(func() []Endpoint { return nil })

// New returns a directory that asks runtimes. endpoints returns those whose socket exists.
func New(endpoints func() []Endpoint) *Directory {
	return &Directory{endpoints: endpoints, open: map[EndpointID]Runtime{}, groups: map[string]*Container{}, failed: map[string]time.Time{}}
}

// SetRuntimes sets which runtimes are asked from now on.
func (d *Directory) SetRuntimes(endpoints func() []Endpoint) {
	d.asking.Lock()
	defer d.asking.Unlock()
	d.endpoints = endpoints
}

// Find returns the container of a control group. It waits for the runtimes where the container
// is new, for a second at most if one of them has not answered, or else for five.
func (d *Directory) Find(cgroup string) *Container {
	d.mu.Lock()
	c := d.groups[cgroup]
	if c != nil && (c.ID == "" || c.Name != "" || d.named[c.ID] == nil && time.Since(d.failed[c.ID]) < retryAfter) {
		d.mu.Unlock()
		return c
	}
	d.mu.Unlock()
	c = &Container{Cgroup: cgroup, ID: idOf(cgroup)}
	if c.ID != "" {
		if known := d.lookUp(c.ID); known != nil {
			copied := *known
			copied.Cgroup = cgroup
			c = &copied
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.groups) >= maxGroups {
		clear(d.groups)
		clear(d.failed)
	}
	if c.ID != "" && c.Name == "" {
		d.failed[c.ID] = time.Now()
	}
	d.groups[cgroup] = c
	return c
}

// lookUp returns what a runtime knows of a container, asking them if it is new; nil: nothing.
func (d *Directory) lookUp(id string) *Container {
	if c := d.told(id); c != nil {
		return c
	}
	d.asking.Lock()
	defer d.asking.Unlock()
	if c := d.told(id); c != nil { // another has asked meanwhile
		return c
	}
	within := patience
	if d.failing {
		within = impatience
	}
	d.ask(within)
	return d.told(id)
}

func (d *Directory) told(id string) *Container {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.named[id]
}

// ask lists the containers of all runtimes. The caller holds asking.
func (d *Directory) ask(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	named, errs := map[string]*Container{}, map[EndpointID]error{}
	there := map[EndpointID]bool{}
	for _, e := range d.endpoints() {
		there[e.ID] = true
		if d.open[e.ID] == nil {
			d.open[e.ID] = e.Open(e.ID.Socket)
		}
		found, err := d.open[e.ID].List(ctx)
		if err != nil {
			errs[e.ID] = err
		}
		for id, c := range found {
			c.ID = id
			c.encode()
			if named[id] == nil {
				named[id] = c
			}
		}
	}
	for id, r := range d.open {
		if !there[id] {
			r.Close()
			delete(d.open, id)
		}
	}
	d.failing = len(errs) > 0
	d.mu.Lock()
	defer d.mu.Unlock()
	d.named, d.errs = named, errs
}

// All returns the containers that the runtimes know now, by their names.
func (d *Directory) All() (all []*Container) {
	d.asking.Lock()
	d.ask(waiting)
	d.asking.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.named {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *Container) int { return strings.Compare(a.Called()+a.ID, b.Called()+b.ID) })
	return all
}

// Runtimes asks the runtimes of this machine. It returns those that answer, and why others
// do not.
func (d *Directory) Runtimes() (answering []string, err error) {
	d.All()
	d.asking.Lock()
	defer d.asking.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	var failed []error
	for id := range d.open {
		if e := d.errs[id]; e != nil {
			failed = append(failed, fmt.Errorf("%s: %w", id, e))
		} else {
			answering = append(answering, id.String())
		}
	}
	slices.Sort(answering)
	return answering, errors.Join(failed...)
}
