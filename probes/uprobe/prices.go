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
)

// What has a price, of an event that reaches the reader unless it is another.
const (
	priceEntry   = "entry"
	priceCounted = "entry, no record" // of what is aggregated, or not wanted
	priceSession = "entry and return, session"
	pricePair    = "entry and return, pair"
	priceExits   = "entry and exit"
)

// estimates are prices in ns, rounded from measurements in a virtual machine
// with Linux 6.18. They hold where nothing can be measured, and for links that
// the kernel has better ones than: those are not measured.
var estimates = calibrate.Table{
	priceEntry:   {codesite.Emulated: 560, codesite.Nop: 300, codesite.Stepped: 18_000},
	priceCounted: {codesite.Emulated: 480, codesite.Nop: 220, codesite.Stepped: 17_900},
	priceSession: {codesite.Emulated: 850, codesite.Nop: 600, codesite.Stepped: 18_200},
	pricePair:    {codesite.Emulated: 1_100, codesite.Nop: 950, codesite.Stepped: 18_500},
	priceExits:   {codesite.Emulated: 1_300, codesite.Nop: 750, codesite.Stepped: 36_000},
}

// costs are what calls cost the program that makes them.
type costs struct {
	measured calibrate.Table // nil, or has some of the kinds of estimates
}

// of is the price of a hit, by the method of its site.
func (c costs) of(price, method string) (ns float64, estimated bool) {
	if t := c.measured[price]; t != nil {
		return t[method], false
	}
	return estimates[price][method], true
}

// sites are the prices by which sites are chosen. They are of entries; what
// follows an entry does not depend on the instruction there.
func (c costs) sites() codesite.Prices {
	of := func(method string) float64 {
		ns, _ := c.of(priceEntry, method)
		return ns
	}
	return codesite.Prices{Emulated: of(codesite.Emulated), Stepped: of(codesite.Stepped), Nop: of(codesite.Nop)}
}

// site is what a hit at a site of w costs; at an entry whose return is trapped,
// with the return.
func (c costs) site(w want, method string, links attach.Kind, aggregated bool) (ns float64, estimated bool) {
	price, share := priceEntry, 1.0
	switch {
	case w.returns == atExits:
		price, share = priceExits, 0.5
	case w.returns == trapped && links == attach.Session:
		price = priceSession
	case w.returns == trapped:
		price = pricePair
	}
	ns, estimated = c.of(price, method)
	if aggregated {
		// Less the record, which costs the same everywhere.
		with, e := c.of(priceEntry, method)
		without, _ := c.of(priceCounted, method)
		ns, estimated = max(ns-max(with-without, 0), 0), estimated || e
	}
	return ns * share, estimated
}

// singleStep says how much more a hit costs where the kernel has to execute the
// instruction by single-stepping.
func (c costs) singleStep() string {
	p := c.sites()
	return plan.FormatDuration(int64(rounded(max(p.Stepped-p.Emulated, 0))))
}

// rounded rounds to what is worth saying of a price.
func rounded(ns float64) float64 {
	unit := 1.0
	for ns/unit >= 100 {
		unit *= 10
	}
	return float64(int64(ns/unit+0.5)) * unit
}

// knownCosts are the prices that were measured on this machine before; else
// they are measured now, which takes tens of milliseconds, and kept.
func (p *Provider) knownCosts() costs {
	if p.o.Prices != nil {
		return costs{p.o.Prices}
	}
	links, err := attach.ChooseKind(&plan.Acquire{}, "", func(k attach.Kind) bool { return k.Needs().Has() })
	if err != nil {
		return costs{}
	}
	table, err := calibrate.UserCache().Table(pricesOf(links), func() (calibrate.Table, error) { return p.measure(links) })
	if err != nil {
		return costs{} // estimates are good enough to go on, and EXPLAIN says so
	}
	return costs{table}
}

// pricesOf lists what is measured through a kind of link, the best that the
// kernel has. Perf events take so long to detach that only entries are.
func pricesOf(links attach.Kind) []string {
	switch links {
	case attach.Session:
		return []string{priceEntry, priceCounted, priceSession, priceExits}
	case attach.Multi:
		return []string{priceEntry, priceCounted, pricePair, priceExits}
	}
	return []string{priceEntry}
}

// measure finds prices by attaching the programs of queries to a program of
// package calibrate.
func (p *Provider) measure(links attach.Kind) (calibrate.Table, error) {
	// What is measured fits in a quarter of the ring: the reader that there is
	// not is not woken.
	c, err := p.compiled()
	if err != nil {
		return nil, err
	}
	k, err := load(Options{RingBytes: 1 << 20, MaxCalls: 64}, c)
	if err != nil {
		return nil, err
	}
	defer k.close()
	var all []calibrate.Observation
	for _, price := range pricesOf(links) {
		all = append(all, calibrate.Observation{Kind: price, Attach: func(file *os.File, fs []calibrate.Function) (func(), error) {
			in, err := k.load(priced(price, links, len(fs)), 0)
			if err != nil {
				return nil, err
			}
			undo := func() {
				in.detach()
				in.objects.Close()
			}
			if err := in.attachPriced(price, links, file, fs); err != nil {
				undo()
				return nil, err
			}
			// The kernel takes longer to detach than all else takes.
			return func() { p.background.Go(undo) }, nil
		}})
	}
	return calibrate.Measure(all)
}

// returnsPriced is how returns are observed in what has this price.
func returnsPriced(price string) returns {
	switch price {
	case priceSession, pricePair:
		return trapped
	case priceExits:
		return atExits
	}
	return unseen
}

// priced is a query of n functions that all events reach.
func priced(price string, links attach.Kind, n int) setup {
	how := returnsPriced(price)
	s := setup{links: links, returns: map[returns]bool{how: true}, functions: n, rate: int64(time.Second)}
	switch {
	case how != unseen:
		s.options = abi.AtReturn
	case price == priceCounted:
		s.test = codegen.Program{Entry: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}}
	}
	return s
}

// attachPriced attaches as Provider.attach does.
func (in *installation) attachPriced(price string, links attach.Kind, file *os.File, fs []calibrate.Function) error {
	for _, a := range programs(links, returnsPriced(price)) {
		var at attach.Places
		for i, f := range fs {
			if a.exits {
				at.Offsets = append(at.Offsets, f.Exit)
				at.Cookies = append(at.Cookies, exitCookie(i, want{}, codesite.Site{SPOffset: f.ExitDepth, RetvalReady: true}))
				continue
			}
			at.Offsets, at.Cookies = append(at.Offsets, f.Entry), append(at.Cookies, uint64(i))
		}
		l, err := attach.Uprobes(in.objects.Programs[a.program], file, a.attachType, a.flags, 0, at)
		if err != nil {
			return err
		}
		in.links = append([]*attach.Link{l}, in.links...)
	}
	return nil
}
