package elf

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"endoscope/parser/spelling"
)

// Nearest returns up to n names of functions that resemble name, the best
// first, for a message such as "no function processComand; nearest:
// processCommand". Case is ignored; a name is also compared by its last
// component (`method` of `ns::Class::method`). Names that need more than a
// third of their letters changed are not returned.
func (m *Module) Nearest(name string, n int) []string {
	if name == "" || len(name) > 256 || n <= 0 {
		return nil
	}
	type match struct {
		name string
		cost int
	}
	var best []match // sorted, at most n
	want := strings.ToLower(name)
	limit := max(2, len(want)/3) * costEdit
	d := distance{want: want}
	for _, f := range m.All() {
		full := f.Name
		bound := limit
		if len(best) == n {
			bound = best[n-1].cost - 1 // only better ones matter from here on
		}
		cost := d.cost(full, bound)
		if last := lastComponent(full); len(last) < len(full) {
			cost = min(cost, d.cost(last, bound-1)+1)
		}
		if cost > bound || slices.ContainsFunc(best, func(b match) bool { return b.name == full }) {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, match{full, cost}, func(a, b match) int {
			return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.name, b.name))
		})
		best = slices.Insert(best, at, match{full, cost})[:min(n, len(best)+1)]
	}
	names := make([]string, len(best))
	for i := range best {
		names[i] = best[i].name
	}
	return names
}

// Costs of differences. A name that contains the wanted one is nearer than any
// misspelling of more than one letter.
const (
	costEdit      = 8
	costPrefix    = 9
	costSubstring = 12
)

// distance measures names against one wanted name.
type distance struct {
	want  string // lower case
	table spelling.Table
	name  []byte // lower case, reused
}

// cost returns the cost of name, or more than bound if it is higher than that.
func (d *distance) cost(name string, bound int) int {
	far := bound + 1
	if bound < 0 {
		return far
	}
	d.name = d.name[:0]
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		d.name = append(d.name, c)
	}
	cost := far
	if extra := len(d.name) - len(d.want); extra >= 0 {
		// A long remainder makes a name less likely.
		switch at := bytes.Index(d.name, []byte(d.want)); {
		case at == 0 && extra == 0:
			return 0
		case at == 0:
			cost = costPrefix + min(extra, 16)/4
		case at > 0:
			cost = costSubstring + min(extra, 16)/4
		}
	}
	most := min(bound, cost) / costEdit
	if edits := spelling.Distance(&d.table, d.name, d.want, most); edits <= most {
		cost = min(cost, edits*costEdit)
	}
	return cost
}

// lastComponent returns what follows the last `::` or `.` of a name.
func lastComponent(name string) string {
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		return name[i+1:]
	}
	return name[strings.LastIndexByte(name, '.')+1:]
}
