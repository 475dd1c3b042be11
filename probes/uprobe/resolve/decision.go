package resolve

import (
	"runtime"
	"sync"
	"sync/atomic"

	"endoscope/probes/codesite"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// decision says how a function is observed, or why it is not.
type decision struct {
	want     calls.Function // without its module and scope
	skipped  string
	noReturn bool // only the return cannot be observed
}

// decideBlock is the number of functions that a worker takes at a time.
const decideBlock = 64

// decide analyses the code of the chosen functions. This is the longest step of a
// query on thousands of functions, so it uses all processors.
func (r *resolver) decide(sym *elf.Module, chosen []selection.Choice) []decision {
	r.reads, r.paired, r.methods = r.need(), calls.ReadsCaller(r.spec.Out) || r.spec.ReadsContext(), calls.ReadsMethodColumns(r.spec.Out)
	out := make([]decision, len(chosen))
	blocks := (len(chosen) + decideBlock - 1) / decideBlock
	var next atomic.Int64
	work := func() {
		for b := int(next.Add(1)) - 1; b < blocks; b = int(next.Add(1)) - 1 {
			for k := b * decideBlock; k < min((b+1)*decideBlock, len(chosen)); k++ {
				out[k] = r.decideOne(sym, chosen[k])
			}
		}
	}
	var others sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), blocks) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	return out
}

// need returns what the query needs at the entries of all functions. Registers that it does
// not read may have changed by the time the probe is hit, so more functions have an
// instruction that is cheap to probe.
func (r *resolver) need() codesite.Need {
	n := codesite.Need{Args: calls.ReadsArgs(r.spec.Out), Only: calls.ReadsOnlyArgs(r.spec.Out), Entry: r.spec.Settings.PlainEntries, Prices: r.costs.Sites()}
	if selection.OfMemory(r.spec) {
		n.Args, n.Only = true, 0
	}
	return n
}

// decideOne decides about one function. It only reads r.
func (r *resolver) decideOne(sym *elf.Module, c selection.Choice) decision {
	w := calls.Function{Size: sym.Size(c.Index), Label: calls.Label{Function: c.Name, Class: c.Class}}
	if c.Lang == elf.Go {
		w.Flags = abi.GoRegisters
		if !selection.OfMemory(r.spec) { // the bits have another meaning there
			w.Flags |= abi.GoidFlag(sym.GoidOffset())
		}
	}
	if selection.OfMemory(r.spec) {
		f := sym.Function(c.Index)
		a := selection.Allocator(&f)
		w.Flags |= uint32(a) << selection.FirstArguments
		w.Unsized = a == selection.TakesText || r.sel.Sizes == selection.MayBeUnknown
	}
	if r.methods {
		w.Method = calls.MethodOf(sym, c)
		if w.Method.On != calls.OnNothing {
			w.Flags |= abi.Method
		}
	}
	if r.marks != nil {
		f := sym.Function(c.Index)
		w.Begins, w.Ends = r.marks.Of(&f, sym.Name())
	}
	marked := w.Begins || w.Ends
	how, exits, reason := r.returnsOf(sym, c.Index, marked)
	if reason != "" {
		return decision{skipped: reason, noReturn: true}
	}
	need := r.reads
	need.Return = how == calls.Trapped
	if marked {
		need.Args, need.Only = true, 0
	}
	site, err := codesite.In(sym).EntrySiteFor(c.Index, need)
	addr, offset := sym.Entry(c.Index)
	if err == nil && (how == calls.AtExits || r.paired) {
		err = calls.Pairable(addr, site, exits)
	}
	if err == nil && how == calls.AtExits && c.Lang == elf.Go {
		err = r.slots.Findable(sym, c.Index)
	}
	if err != nil {
		return decision{skipped: err.Error()}
	}
	w.Site, w.Behind, w.Returns, w.Exits = site, site.Offset-offset, how, exits
	w.Values = r.valuesOfFunction(sym, c, site)
	return decision{want: w}
}

// valuesOfFunction returns how a query's values are read in one function, which is
// probed at site.
func (r *resolver) valuesOfFunction(sym *elf.Module, c selection.Choice, site codesite.Site) []calls.FunctionValue {
	if !calls.AnyValue(r.values) {
		return nil
	}
	return r.signatures.Values(r.values, sym, c, signature.Where{SPOffset: site.SPOffset})
}
