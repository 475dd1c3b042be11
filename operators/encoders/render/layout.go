package render

import (
	"cmp"
	"math"
	"slices"
)

// Sizes of a layout, in pixels.
const (
	layerGap = 34.0 // between two layers
	itemGap  = 18.0 // between neighbours of a layer
	loopRoom = 30.0 // of a loop beside its node
	sweeps   = 12   // over all layers, for their order
	settling = 60   // sweeps over all layers, for positions
)

// item is what is placed in a layer: a node, or a point at which an arrow passes the layer,
// where its label may be. Its position is along the layers and across them.
type item struct {
	node        int // -1: a point of an arrow
	layer       int
	half        float64 // size along the layers, to either side
	low, high   float64 // size across, to either side of the position
	at, along   float64
	order       int
	before, nxt []int // neighbours in the layers beside
}

// route is how an arrow goes: through items, from a layer to later ones. If the graph has
// cycles some arrows are turned: the route of a turned arrow begins at its target.
type route struct {
	items  []int
	turned bool
	label  int // the item at which the label is; -1: none
}

// layout is Sugiyama's: cycles are broken, nodes get layers, arrows that skip layers and
// labels get places in the layers between, each layer is ordered to have few crossings, and
// positions are as straight as the order permits.
//
// Neighbours of a layer are itemGap apart, and layers do not overlap: so no label or node
// overlaps another.
type layout struct {
	items  []item
	layers [][]int
	routes []route // by edge; without items: a loop
	starts []float64
	ends   []float64 // of layers, along
}

// size is the size of a node or label for a layout.
type size struct{ along, low, high float64 }

// mostPlaced is the largest number of items that are placed: of nodes, and of points at which
// arrows pass layers.
const mostPlaced = 30_000

// arrange places a graph; labels are the sizes of the labels of edges, zero without one. It
// returns nil if there is too much to place.
func arrange(nodes []size, edges []DiagramEdge, labels []size) *layout {
	l := &layout{routes: make([]route, len(edges))}
	turned := backward(len(nodes), edges)
	ranks := ranked(len(nodes), edges, labels, turned)
	placed := len(nodes)
	for _, e := range edges {
		placed += max(ranks[e.From]-ranks[e.To], ranks[e.To]-ranks[e.From])
	}
	if placed > mostPlaced {
		return nil
	}
	for i, n := range nodes {
		l.items = append(l.items, item{node: i, layer: ranks[i], half: n.along, low: n.low, high: n.high})
	}
	for i, e := range edges {
		l.routes[i].label = -1
		if e.From == e.To {
			continue
		}
		from, to := e.From, e.To
		if turned[i] {
			from, to = to, from
		}
		r := route{items: []int{from}, turned: turned[i], label: -1}
		middle := (ranks[from] + ranks[to]) / 2
		for layer := ranks[from] + 1; layer < ranks[to]; layer++ {
			p := item{node: -1, layer: layer, low: 2, high: 2}
			if layer == middle && labels[i] != (size{}) {
				p.half, p.low, p.high = labels[i].along, labels[i].low, labels[i].high
				r.label = len(l.items)
			}
			r.items = append(r.items, len(l.items))
			l.items = append(l.items, p)
		}
		r.items = append(r.items, to)
		for k := 1; k < len(r.items); k++ {
			a, b := r.items[k-1], r.items[k]
			l.items[a].nxt = append(l.items[a].nxt, b)
			l.items[b].before = append(l.items[b].before, a)
		}
		l.routes[i] = r
	}
	for i, it := range l.items {
		for len(l.layers) <= it.layer {
			l.layers = append(l.layers, nil)
		}
		l.layers[it.layer] = append(l.layers[it.layer], i)
	}
	l.sort()
	l.position()
	return l
}

// backward returns which edges must be turned so that there is no cycle: those that lead to
// a node on the path of a depth-first search.
func backward(nodes int, edges []DiagramEdge) []bool {
	turned := make([]bool, len(edges))
	leaving := make([][]int, nodes)
	for i, e := range edges {
		leaving[e.From] = append(leaving[e.From], i)
	}
	const (
		unseen = iota
		onPath
		left
	)
	state := make([]int, nodes)
	type step struct{ node, next int }
	for n := range nodes {
		if state[n] != unseen {
			continue
		}
		path := []step{{node: n}}
		state[n] = onPath
		for len(path) > 0 {
			s := &path[len(path)-1]
			if s.next == len(leaving[s.node]) {
				state[s.node] = left
				path = path[:len(path)-1]
				continue
			}
			i := leaving[s.node][s.next]
			s.next++
			switch to := edges[i].To; state[to] {
			case unseen:
				state[to] = onPath
				path = append(path, step{node: to})
			case onPath:
				turned[i] = true
			}
		}
	}
	return turned
}

// ranked returns the layer of each node: the length of the longest path to it, where an
// arrow with a label, or beside another one, needs a layer between. A node without arrows to
// it is in the last layer that its arrows permit.
func ranked(nodes int, edges []DiagramEdge, labels []size, turned []bool) []int {
	type arc struct{ to, length int }
	next, degree := make([][]arc, nodes), make([]int, nodes)
	pairs := map[[2]int]int{}
	ends := func(i int) (from, to int) {
		if turned[i] {
			return edges[i].To, edges[i].From
		}
		return edges[i].From, edges[i].To
	}
	for i := range edges {
		from, to := ends(i)
		pairs[[2]int{from, to}]++
	}
	for i := range edges {
		from, to := ends(i)
		if from == to {
			continue
		}
		length := 1
		if labels[i] != (size{}) || pairs[[2]int{from, to}] > 1 {
			length = 2
		}
		next[from] = append(next[from], arc{to, length})
		degree[to]++
	}
	roots := make([]bool, nodes)
	var queue []int
	for n := range nodes {
		if degree[n] == 0 {
			queue, roots[n] = append(queue, n), true
		}
	}
	ranks := make([]int, nodes)
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, a := range next[n] {
			ranks[a.to] = max(ranks[a.to], ranks[n]+a.length)
			if degree[a.to]--; degree[a.to] == 0 {
				queue = append(queue, a.to)
			}
		}
	}
	for n := range nodes {
		if !roots[n] || len(next[n]) == 0 {
			continue
		}
		ranks[n] = math.MaxInt
		for _, a := range next[n] {
			ranks[n] = min(ranks[n], ranks[a.to]-a.length)
		}
	}
	return ranks
}

// sort orders the items of each layer by the mean place of their neighbours in the layer
// before, and then after, and keeps the order with the fewest crossings.
func (l *layout) sort() {
	l.number()
	best, fewest := l.orders(), l.crossings()
	for sweep := 0; sweep < sweeps && fewest > 0; sweep++ {
		down := sweep%2 == 0
		for i := range l.layers {
			layer := l.layers[i]
			if !down {
				layer = l.layers[len(l.layers)-1-i]
			}
			mean := make(map[int]float64, len(layer))
			for _, n := range layer {
				mean[n] = l.mean(n, down)
			}
			slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
			for at, n := range layer {
				l.items[n].order = at
			}
		}
		if n := l.crossings(); n < fewest {
			best, fewest = l.orders(), n
		}
	}
	l.layers = best
	l.number()
}

func (l *layout) number() {
	for _, layer := range l.layers {
		for at, n := range layer {
			l.items[n].order = at
		}
	}
}

func (l *layout) orders() [][]int {
	out := make([][]int, len(l.layers))
	for i, layer := range l.layers {
		out[i] = slices.Clone(layer)
	}
	return out
}

// mean returns the mean place of the neighbours of an item; its own if it has none.
func (l *layout) mean(n int, before bool) float64 {
	beside := l.items[n].nxt
	if before {
		beside = l.items[n].before
	}
	if len(beside) == 0 {
		return float64(l.items[n].order)
	}
	sum := 0
	for _, m := range beside {
		sum += l.items[m].order
	}
	return float64(sum) / float64(len(beside))
}

// crossings counts the crossings between all adjacent layers: inversions, by a Fenwick tree.
func (l *layout) crossings() (total int) {
	for i := range len(l.layers) - 1 {
		seen := make([]int, len(l.layers[i+1])+1)
		count := 0
		for _, n := range l.layers[i] {
			var ends []int
			for _, m := range l.items[n].nxt {
				ends = append(ends, l.items[m].order)
			}
			for _, e := range ends {
				notAfter := 0
				for k := e + 1; k > 0; k -= k & -k {
					notAfter += seen[k]
				}
				total += count - notAfter
			}
			for _, e := range ends {
				for k := e + 1; k < len(seen); k += k & -k {
					seen[k]++
				}
			}
			count += len(ends)
		}
	}
	return total
}

// position sets the positions: across by sweeps in which each layer comes as near to the
// means of its neighbours as its order permits, and along by the thickness of the layers.
func (l *layout) position() {
	for _, layer := range l.layers {
		at := 0.0
		for _, n := range layer {
			at += l.items[n].low
			l.items[n].at = at
			at += l.items[n].high + itemGap
		}
		for _, n := range layer {
			l.items[n].at -= at / 2
		}
	}
	for sweep := range settling {
		for i := range l.layers {
			if sweep%2 == 1 {
				i = len(l.layers) - 1 - i
			}
			l.settle(l.layers[i], sweep)
		}
	}
	at := 0.0
	for _, layer := range l.layers {
		half := 0.0
		for _, n := range layer {
			half = max(half, l.items[n].half)
		}
		l.starts, l.ends = append(l.starts, at), append(l.ends, at+2*half)
		for _, n := range layer {
			l.items[n].along = at + half
		}
		at += 2*half + layerGap
	}
}

// settle moves the items of a layer to the positions nearest to those wished for that keep
// their order and distances: isotonic regression, by pooling adjacent violators.
func (l *layout) settle(layer []int, sweep int) {
	type pool struct {
		sum, weight float64
		items       int
	}
	var pools []pool
	offset := 0.0 // of an item from the first, if all are as near as possible
	offsets := make([]float64, len(layer))
	for i, n := range layer {
		it := &l.items[n]
		if i > 0 {
			offset += l.items[layer[i-1]].high + itemGap + it.low
		}
		offsets[i] = offset
		wish, weight := l.wish(n, sweep)
		pools = append(pools, pool{(wish - offset) * weight, weight, 1})
		for k := len(pools); k > 1 && pools[k-2].sum/pools[k-2].weight > pools[k-1].sum/pools[k-1].weight; k = len(pools) {
			last := pools[k-1]
			pools = pools[:k-1]
			pools[k-2].sum += last.sum
			pools[k-2].weight += last.weight
			pools[k-2].items += last.items
		}
	}
	i := 0
	for _, p := range pools {
		for range p.items {
			l.items[layer[i]].at = p.sum/p.weight + offsets[i]
			i++
		}
	}
}

// wish returns where an item would like to be: between its neighbours in the layer that has
// just been placed; in later sweeps in both. Points of arrows insist, so that long arrows
// are straight.
func (l *layout) wish(n, sweep int) (at, weight float64) {
	it := &l.items[n]
	beside := [][]int{it.before, it.nxt}
	if sweep < settling/3 {
		beside = beside[sweep%2 : sweep%2+1]
	}
	weight = 0.05
	at = it.at * weight
	for _, side := range beside {
		for _, m := range side {
			w := 1.0
			if it.node < 0 && l.items[m].node < 0 {
				w = 8
			}
			at += w * l.items[m].at
			weight += w
		}
	}
	return at / weight, weight
}
