package structure

import (
	"slices"

	"endoscope/operators/encoders"
)

// DAGEncoder makes a directed acyclic graph of a tree of calls: equal subtrees,
// a function with the same calls in the same order, share a node. (Jerding,
// Stasko and Ball: Visualizing interactions in program executions, ICSE 1997.)
// Times are when calls and returns happened.
type DAGEncoder struct {
	encoders.Intake
	encoders.Calls
	cutoff int64
	nodes  folding
	// children has, one frame behind the other, the function and what it has
	// called so far; at the bottom what was called from nowhere.
	children []item
	from     []int // by frame: where its children begin
	bytes    int64 // of nodes
}

// NewDAGEncoder returns an encoder for the calls of a thread. With a cutoff
// more than that many equal subtrees behind each other count as the same,
// however many they are; 0: none do.
func NewDAGEncoder(a *encoders.Alphabet, cutoff int, l encoders.Limits) *DAGEncoder {
	return &DAGEncoder{Intake: encoders.Intake{Alphabet: a, Limits: l}, cutoff: int64(cutoff), nodes: folding{byText: map[string]uint32{}}}
}

// Append implements [Encoder].
func (e *DAGEncoder) Append(symbols []encoders.Symbol, times []int64) {
	e.Consume(symbols, times, e.encode, e.Bytes)
}

func (e *DAGEncoder) encode(symbols []encoders.Symbol, times []int64) {
	for i, s := range symbols {
		if s != encoders.Return {
			e.Enter(s, encoders.Moment(times, i))
			e.from = append(e.from, len(e.children))
			e.children = append(e.children, item{s, 1})
			continue
		}
		_, took, ok := e.Leave(encoders.Moment(times, i))
		if !ok {
			e.children = appendRunOf(e.children, item{encoders.Return, 1}, e.cutoff)
			continue
		}
		from := e.from[len(e.Frames)]
		e.from = e.from[:len(e.Frames)]
		e.children = append(e.children, item{encoders.Return, 1})
		before := len(e.nodes.rules)
		r := e.nodes.rule(e.children[from:], &encoders.Stats{})
		if len(e.nodes.rules) > before {
			e.bytes += nodeBytes + int64(20*(len(e.children)-from))
		}
		e.nodes.stats[r].Add(took)
		e.children = appendRunOf(e.children[:from], item{ruleBit | r, 1}, e.cutoff)
	}
}

// nodeBytes is about what a node takes besides its children.
const nodeBytes = 150

// Bytes implements [Encoder].
func (e *DAGEncoder) Bytes() int64 {
	return e.bytes + int64(16*cap(e.children)+24*cap(e.Frames))
}

// Encode implements [Encoder]. Calls that have not returned are nodes too.
func (e *DAGEncoder) Encode() encoders.Encoding {
	nodes := folding{rules: slices.Clone(e.nodes.rules), stats: slices.Clone(e.nodes.stats)}
	children := slices.Clone(e.children)
	for i := len(e.from) - 1; i >= 0; i-- {
		// No other node is like it: none that returned, and none around it.
		r := uint32(len(nodes.rules))
		nodes.rules = append(nodes.rules, slices.Clone(children[e.from[i]:]))
		nodes.stats = append(nodes.stats, encoders.Stats{Count: 1})
		children = appendRunOf(children[:e.from[i]], item{ruleBit | r, 1}, e.cutoff)
	}
	return &Grammar{
		Source: e.Source(), productions: nodes.finish([][]item{children}, []encoders.Stats{{Count: 1}}),
		names: e.Alphabet.Names(), options: GrammarOptions{Runs: true, Cutoff: int(e.cutoff), calls: true},
	}
}
