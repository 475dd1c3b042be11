package uprobe

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"sort"
	"strings"

	"endoscope/probes"
	"endoscope/probes/bpf"
)

// probeKey identifies a probe that queries can share.
type probeKey struct {
	file    fileID
	offset  uint64
	returns bool
	scope   string
	// group is "" or the set of functions among which depth counts: queries
	// that ask for depth share probes only if they monitor the same functions.
	group string
}

// probe is one function probed for one or more queries.
type probe struct {
	key        probeKey
	id         uint32 // cookie, and index into the kernel's maps
	config     bpf.FunctionConfig
	base       uint32               // config.Flags that do not depend on who uses it
	users      map[*source]uint32   // what each wants
	members    []bpf.FunctionTarget // of its scope
	bundle     *bundle
	label      label
	method     string
	hitsBefore uint64 // of a former owner of id
}

// flags is what all users want together; 0, switched off, without users.
func (p *probe) flags() uint32 {
	if len(p.users) == 0 {
		return 0
	}
	f := p.base
	for _, u := range p.users {
		f |= u
	}
	return f
}

// bundle is the probes that were attached together. The kernel can detach them
// only together: until the last is unused, the others are switched off.
type bundle struct {
	links  []*link // in the order in which to close them
	probes []*probe
}

func (b *bundle) used() bool {
	for _, p := range b.probes {
		if len(p.users) > 0 {
			return true
		}
	}
	return false
}

func (b *bundle) close() {
	for _, l := range b.links {
		l.close()
	}
}

// numbered gives strings small numbers while somebody uses them. A number is
// never given twice: the kernel may remember calls of the former owner.
type numbered struct {
	next uint32
	by   map[string]*numberUse
}

type numberUse struct {
	n    uint32
	refs int
}

// take returns the number of key, and whether it is new.
func (x *numbered) take(key string) (uint32, bool) {
	if u := x.by[key]; u != nil {
		u.refs++
		return u.n, false
	}
	x.next++
	x.by[key] = &numberUse{n: x.next, refs: 1}
	return x.next, true
}

// give returns a use, and reports whether it was the last.
func (x *numbered) give(key string) bool {
	u := x.by[key]
	if u.refs--; u.refs > 0 {
		return false
	}
	delete(x.by, key)
	return true
}

// table is what is attached. It is guarded by Provider.mu.
type table struct {
	probes map[probeKey]*probe
	scopes numbered
	groups numbered
}

func newTable() table {
	return table{
		probes: map[probeKey]*probe{},
		scopes: numbered{by: map[string]*numberUse{}},
		groups: numbered{by: map[string]*numberUse{}},
	}
}

// groupOf names the set of functions that wants are.
func groupOf(ws []want) string {
	keys := make([]string, len(ws))
	for i, w := range ws {
		keys[i] = fmt.Sprintf("%x:%x:%x:%s", w.module.id.dev, w.module.id.ino, w.site.Offset, w.scope.key)
	}
	sort.Strings(keys)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(keys, "\n"))))
}

// siteHash is equal for probes of the same instruction. That two
// others are equal too once in four billion does no harm: it is looked at only
// when both were called at the same stack pointer.
func siteHash(k probeKey) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d %d %d", k.file.dev, k.file.ino, k.offset)
	return h.Sum32()
}

// sites lists the probes with their users and hits.
func (t *table) sites(k *kernel, returnKind string) []probes.Site {
	var out []probes.Site
	var per []bpf.FunctionCounters
	for _, p := range t.probes {
		if len(p.users) == 0 {
			continue
		}
		s := siteOf(p.label, p.key.offset, p.method, p.key.returns, returnKind)
		s.Queries = len(p.users)
		if c, err := k.counters(p.id, &per); err == nil {
			s.Hits = c.Hits - p.hitsBefore
		}
		out = append(out, s)
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Module != out[j].Module {
			return out[i].Module < out[j].Module
		}
		return out[i].Address < out[j].Address
	})
	return out
}

// detachAll closes every link.
func (t *table) detachAll() {
	done := map[*bundle]bool{}
	for _, p := range t.probes {
		if !done[p.bundle] {
			done[p.bundle] = true
			p.bundle.close()
		}
	}
	*t = newTable()
}
