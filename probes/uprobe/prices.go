package uprobe

import (
	"os"
	"time"

	"github.com/cilium/ebpf/asm"

	"endoscope/planner/plan"
	"endoscope/probes/calibrate"
	"endoscope/probes/codegen"
	"endoscope/probes/codesite"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/program"
)

// knownCosts returns the prices measured on this machine. Without a cached table it
// measures them, which takes tens of milliseconds, and caches them.
func (p *Provider) knownCosts() calls.Costs {
	if p.o.Prices != nil {
		return calls.Costs{Measured: p.o.Prices}
	}
	links, err := attach.ChooseKind(&plan.Acquire{}, "", func(k attach.Kind) bool { return k.Needs().Has() })
	if err != nil {
		return calls.Costs{}
	}
	table, err := calibrate.UserCache().Table(pricesOf(links), func() (calibrate.Table, error) { return p.measure(links) })
	if err != nil {
		return calls.Costs{} // estimates suffice; EXPLAIN marks them as such
	}
	return calls.Costs{Measured: table}
}

// pricesOf lists the prices that are measured with a kind of link, the best the kernel
// has. With perf events only entries are measured, because detaching takes too long.
func pricesOf(links attach.Kind) []string {
	switch links {
	case attach.Session:
		return []string{calls.PriceEntry, calls.PriceCounted, calls.PriceSession, calls.PriceExits}
	case attach.Multi:
		return []string{calls.PriceEntry, calls.PriceCounted, calls.PricePair, calls.PriceExits}
	}
	return []string{calls.PriceEntry}
}

// measure measures prices by attaching the programs of queries to a program of package
// calibrate.
func (p *Provider) measure(links attach.Kind) (calibrate.Table, error) {
	// The events fit in a quarter of the ring, so that the kernel wakes no reader. There
	// is none.
	c, err := p.compiled()
	if err != nil {
		return nil, err
	}
	k, err := program.New(1<<20, 64, Options{}.preallocates(), c)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	var all []calibrate.Observation
	for _, price := range pricesOf(links) {
		all = append(all, calibrate.Observation{Kind: price, Attach: func(file *os.File, fs []calibrate.Function) (func(), error) {
			in, err := k.Load(priced(price, links, len(fs)), 0)
			if err != nil {
				return nil, err
			}
			undo := func() {
				in.Detach()
				in.Objects.Close()
			}
			if err := attachPriced(in, price, links, file, fs); err != nil {
				undo()
				return nil, err
			}
			// Detaching takes the kernel longer than everything else.
			return func() { p.background.Go(undo) }, nil
		}})
	}
	return calibrate.Measure(all)
}

// returnsPriced returns how returns are observed by the probes with a price.
func returnsPriced(price string) calls.Returns {
	switch price {
	case calls.PriceSession, calls.PricePair:
		return calls.Trapped
	case calls.PriceExits:
		return calls.AtExits
	}
	return calls.Unseen
}

// priced returns the setup of a query of n functions that measures a price. It restricts
// no targets.
func priced(price string, links attach.Kind, n int) program.Setup {
	how := returnsPriced(price)
	s := program.Setup{Links: links, Returns: map[calls.Returns]bool{how: true}, Functions: n, Rate: int64(time.Second)}
	switch {
	case how != calls.Unseen:
		s.Options = abi.AtReturn
	case price == calls.PriceCounted:
		s.Test = codegen.Program{Entry: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}}
	}
	return s
}

// attachPriced attaches programs in the same way as Provider.attach.
func attachPriced(in *program.Installation, price string, links attach.Kind, file *os.File, fs []calibrate.Function) error {
	for _, a := range program.ProgramsOf(links, returnsPriced(price)) {
		var at attach.Places
		for i, f := range fs {
			if a.Exits {
				at.Offsets = append(at.Offsets, f.Exit)
				at.Cookies = append(at.Cookies, calls.ExitCookie(i, calls.Function{}, codesite.Site{SPOffset: f.ExitDepth, RetvalReady: true}))
				continue
			}
			at.Offsets, at.Cookies = append(at.Offsets, f.Entry), append(at.Cookies, uint64(i))
		}
		l, err := attach.Uprobes(in.Objects.Programs[a.Program], file, a.AttachType, a.Flags, 0, at)
		if err != nil {
			return err
		}
		in.Links = append([]*attach.Link{l}, in.Links...)
	}
	return in.Arm(true)
}
