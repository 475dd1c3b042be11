package structure

import (
	"slices"

	"endoscope/operators/encoders"
)

// DAGEncoder turns a call tree into a directed acyclic graph: equal subtrees, a function
// with the same calls in the same order, share a node (Jerding, Stasko and Ball:
// Visualizing interactions in program executions, ICSE 1997). Times are when calls and
// returns happened.
type DAGEncoder struct {
	encoders.Intake
	encoders.Calls
	cutoff int64
	nodes  folding
	// children holds, frame by frame, the function and its calls so far; at the bottom are
	// the calls without a caller.
	children []item
	from     []int // by frame: index of its first child in children
	bytes    int64 // of nodes
}

// NewDAGEncoder returns an encoder for the calls of a thread. With a cutoff, runs of more
// than that many equal adjacent subtrees compare equal, whatever their length; 0 disables
// it.
func NewDAGEncoder(a *encoders.Alphabet, cutoff int, l encoders.Limits) *DAGEncoder {
	return &DAGEncoder{Intake: encoders.Intake{Alphabet: a, Limits: l}, cutoff: int64(cutoff), nodes: folding{byText: map[string]uint32{}}}
}

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

// nodeBytes is the approximate size of a node without its children.
const nodeBytes = 150

func (e *DAGEncoder) Bytes() int64 {
	return e.bytes + int64(16*cap(e.children)+24*cap(e.Frames))
}

// Encode implements [Encoder]. Calls that have not returned are nodes too.
func (e *DAGEncoder) Encode() encoders.Encoding {
	nodes := folding{rules: slices.Clone(e.nodes.rules), stats: slices.Clone(e.nodes.stats)}
	children := slices.Clone(e.children)
	for i := len(e.from) - 1; i >= 0; i-- {
		// No other node equals it: neither one that returned nor one that encloses it.
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
