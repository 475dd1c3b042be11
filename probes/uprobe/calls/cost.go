package calls

import (
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/calibrate"
	"endoscope/probes/codesite"
	"endoscope/probes/uprobe/attach"
)

// Priced operations. Each is an event that reaches the reader, unless stated
// otherwise.
const (
	PriceEntry   = "entry"
	PriceCounted = "entry, no record" // aggregated, or rejected by the filter
	PriceSession = "entry and return, session"
	PricePair    = "entry and return, pair"
	PriceExits   = "entry and exit"
)

// Estimates are prices in ns, rounded from measurements in a virtual machine with
// Linux 6.18. They are used where nothing can be measured, and for kinds of links that
// are slower than the kernel's best: those are not measured.
var Estimates = calibrate.Table{
	PriceEntry:   {codesite.Emulated: 560, codesite.Nop: 300, codesite.Stepped: 18_000},
	PriceCounted: {codesite.Emulated: 480, codesite.Nop: 220, codesite.Stepped: 17_900},
	PriceSession: {codesite.Emulated: 850, codesite.Nop: 600, codesite.Stepped: 18_200},
	PricePair:    {codesite.Emulated: 1_100, codesite.Nop: 950, codesite.Stepped: 18_500},
	PriceExits:   {codesite.Emulated: 1_300, codesite.Nop: 750, codesite.Stepped: 36_000},
}

// Costs are the costs of calls to the program that makes them.
type Costs struct {
	Measured calibrate.Table // nil, or has some of the kinds of Estimates
}

// Price returns the price of a hit, by the method of its site.
func (c Costs) Price(price, method string) (ns float64, estimated bool) {
	if t := c.Measured[price]; t != nil {
		return t[method], false
	}
	return Estimates[price][method], true
}

// Sites returns the prices by which sites are chosen. They are prices of entries; the
// cost after an entry does not depend on its instruction.
func (c Costs) Sites() codesite.Prices {
	of := func(method string) float64 {
		ns, _ := c.Price(PriceEntry, method)
		return ns
	}
	return codesite.Prices{Emulated: of(codesite.Emulated), Stepped: of(codesite.Stepped), Nop: of(codesite.Nop)}
}

// Site returns the cost of a hit at a site of w, including the return if that is
// trapped.
func (c Costs) Site(w Function, method string, links attach.Kind, aggregated bool) (ns float64, estimated bool) {
	price, share := PriceEntry, 1.0
	switch {
	case w.Returns == AtExits:
		price, share = PriceExits, 0.5
	case w.Returns == Trapped && links == attach.Session:
		price = PriceSession
	case w.Returns == Trapped:
		price = PricePair
	}
	ns, estimated = c.Price(price, method)
	if aggregated {
		// Subtract the record, which costs the same everywhere.
		with, e := c.Price(PriceEntry, method)
		without, _ := c.Price(PriceCounted, method)
		ns, estimated = max(ns-max(with-without, 0), 0), estimated || e
	}
	return ns * share, estimated
}

// SingleStep returns the additional cost of a hit where the kernel has to single-step
// the instruction.
func (c Costs) SingleStep() string {
	p := c.Sites()
	return plan.FormatDuration(int64(Rounded(max(p.Stepped-p.Emulated, 0))))
}

// Rounded rounds a price to its significant digits.
func Rounded(ns float64) float64 {
	unit := 1.0
	for ns/unit >= 100 {
		unit *= 10
	}
	return float64(int64(ns/unit+0.5)) * unit
}

// RowNs is the cost of delivering a record to the engine and into a join, in ns of the
// machine's time: 1.0 to 1.7 million records a second are delivered.
const RowNs = 1_000

// Call returns the cost of a call of w.
func (c Costs) Call(w Function, links attach.Kind) probes.Price {
	entry, _ := c.Price(PriceCounted, w.Site.Method)
	record, _ := c.Price(PriceEntry, w.Site.Method)
	whole, _ := c.Site(w, w.Site.Method, links, true)
	p := probes.Price{Open: entry, Shut: entry, Return: max(0, whole-entry), Row: max(0, record-entry) + RowNs}
	if len(w.Exits) > 0 { // a call leaves by one of them, whether or not its entry was recorded
		exit, _ := c.Site(w, w.Exits[0].Method, links, true)
		trap, _ := c.Price(PriceCounted, w.Exits[0].Method)
		p.Open, p.Return, p.Shut = whole+exit, 0, entry+trap
	}
	return p
}
