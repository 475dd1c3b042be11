package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"endoscope/server/wire"
)

// Silence is the error of a host that is known and does not answer.
type Silence struct{ Since time.Time } // zero: it was never heard

func (e *Silence) Error() string {
	if e.Since.IsZero() {
		return "never"
	}
	return time.Since(e.Since).Truncate(time.Second).String()
}

// Lost reports true: the others go on.
func (e *Silence) Lost() bool { return true }

// Gap is the error of a host whose agent was restarted: what it had not sent is missing.
type Gap struct{ From, To time.Time }

func (e *Gap) Error() string {
	const layout = "15:04:05.000"
	return fmt.Sprintf("it was restarted, and nothing is known from %s to %s", e.From.Format(layout), e.To.Format(layout))
}

// Lost reports true: the others go on.
func (e *Gap) Lost() bool { return true }

// gapCause is the cause of intervals of restarted hosts of which nothing is known.
const gapCause = "intervals of restarted hosts"

// mostNamed is how many hosts of one kind the footer names.
const mostNamed = 8

// lastOf returns the last part of each host, in the order in which hosts began: a host that
// was restarted counts by its last start.
func lastOf(parts []*part) (last map[string]*part, names []string) {
	last = map[string]*part{}
	for _, p := range parts {
		if last[p.name] == nil {
			names = append(names, p.name)
		}
		last[p.name] = p
	}
	return last, names
}

// neverHeard is why a host is missing that was never heard.
const neverHeard = "it was never heard"

// state returns what the result has of a host by its last part.
func (p *part) state() wire.HostState {
	out := wire.HostState{Name: p.name, State: wire.HostAnswered}
	var none *Silence
	late := func(t time.Time) {
		out.State, out.Why, out.Heard = wire.HostLate, "silent since "+t.Format(time.TimeOnly), t // it does not change while a host is silent
	}
	switch {
	case errors.As(p.err, &none) && none.Since.IsZero():
		out.State, out.Why = wire.HostMissing, neverHeard
	case errors.As(p.err, &none):
		late(none.Since)
	case p.err != nil:
		out.State, out.Why = wire.HostMissing, p.err.Error()
	case p.silent && !p.over:
		late(p.heard)
	}
	return out
}

// hosts returns what the result has of the hosts of a part: itself, or those of a shard.
func (p *part) hosts() []wire.HostState {
	own := p.state()
	if p.member == nil || p.member.shard == nil {
		return []wire.HostState{own}
	}
	known := map[string]wire.HostState{}
	var none *Unmerged
	switch {
	case p.res != nil:
		for _, h := range p.res.Summary().Hosts { // those that have not answered or have gaps
			known[h.Name] = h
		}
	case errors.As(p.err, &none):
		for _, h := range none.Hosts {
			known[h.Name] = h
		}
	}
	out := make([]wire.HostState, 0, len(p.member.shard))
	for _, name := range p.member.shard {
		h, ok := known[name]
		if !ok || h.State == wire.HostAnswered {
			h = own
			h.Name = name
		}
		out = append(out, h)
	}
	return out
}

// allStates returns what the result has of each host, in the order in which they began.
func allStates(parts []*part) (out []wire.HostState) {
	last, names := lastOf(parts)
	for _, name := range names {
		out = append(out, last[name].hosts()...)
	}
	return out
}

// states returns what the result has of each host, by name.
func states(parts []*part) []wire.HostState {
	out := allStates(parts)
	slices.SortStableFunc(out, func(a, b wire.HostState) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// coverage describes how many hosts returned everything they have, and why the others did
// not: silent hosts, and those with an error.
func coverage(hosts []wire.HostState) string {
	var silent []string
	var missing []wire.HostState
	declined := map[string][]string{}
	for _, h := range hosts {
		switch {
		case h.State == wire.HostLate:
			silent = append(silent, fmt.Sprintf("%s (%v)", h.Name, &Silence{h.Heard}))
		case h.Why == neverHeard:
			silent = append(silent, fmt.Sprintf("%s (%v)", h.Name, &Silence{}))
		case h.State == wire.HostMissing:
			missing = append(missing, h)
			declined[h.Why] = append(declined[h.Why], h.Name)
		}
	}
	text := fmt.Sprintf("%d of %d hosts", len(hosts)-len(silent)-len(missing), len(hosts))
	if len(silent) > 0 {
		text += fmt.Sprintf(", %d silent: %s", len(silent), some(silent))
	}
	var why []string
	for _, h := range missing {
		if len(hosts) < manyHosts {
			why = append(why, h.Name+": "+h.Why)
		} else if of := declined[h.Why]; of != nil {
			why = append(why, some(of)+": "+strings.ReplaceAll(strings.TrimPrefix(h.Why, "error: "), "\n", " "))
			delete(declined, h.Why)
		}
	}
	if len(why) > 0 {
		text += " (" + strings.Join(why, "; ") + ")"
	}
	return text
}

// gapOf is a gap of a host.
type gapOf struct {
	host string
	wire.HostGap
}

// gapsOf returns the intervals of restarted hosts of which nothing is known.
func gapsOf(parts []*part) (all []gapOf) {
	for _, p := range parts {
		var gap *Gap
		switch {
		case p.res == nil:
		case p.member.shard != nil:
			for _, h := range p.res.Summary().Hosts {
				for _, g := range h.Gaps {
					all = append(all, gapOf{h.Name, g})
				}
			}
		case errors.As(p.err, &gap):
			all = append(all, gapOf{p.name, wire.HostGap{Run: p.res.Info().Run, From: gap.From, To: gap.To}})
		}
	}
	return all
}

// gapNotes names gaps.
func gapNotes(all []gapOf) (notes []string) {
	for _, g := range all {
		notes = append(notes, g.host+": "+(&Gap{g.From, g.To}).Error())
	}
	return notes
}

// withGaps adds gaps to the states of their hosts.
func withGaps(hosts []wire.HostState, gaps []gapOf) {
	of := map[string]*wire.HostState{}
	for i := range hosts {
		of[hosts[i].Name] = &hosts[i]
	}
	for _, g := range gaps {
		of[g.host].Gaps = append(of[g.host].Gaps, g.HostGap)
	}
}

// WithGaps returns the states of hosts with the gaps that were known before. A gap that both have
// is that of before.
func WithGaps(hosts, before []wire.HostState) []wire.HostState {
	at := map[string]int{}
	for i, h := range hosts {
		at[h.Name] = i
	}
	for _, h := range before {
		if h.Gaps == nil {
			continue
		}
		i, known := at[h.Name]
		if !known {
			i, hosts = len(hosts), append(hosts, wire.HostState{Name: h.Name, State: wire.HostAnswered})
		}
		all := slices.Clone(h.Gaps)
		for _, g := range hosts[i].Gaps {
			if !slices.ContainsFunc(all, func(x wire.HostGap) bool { return x.Run == g.Run }) {
				all = append(all, g)
			}
		}
		hosts[i].Gaps = all
	}
	return hosts
}

// Coverage says how many hosts have answered, and which have not.
func (g *gathered) Coverage() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return coverage(allStates(g.parts))
}

// some lists names, not all if there are many.
func some(names []string) string {
	if len(names) <= mostNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), len(names)-mostNamed)
}

// manyHosts is the number of hosts from which on the same text of several is shown once.
const manyHosts = 8

// noteLines are remarks of hosts for the footer.
type noteLines struct {
	of    int // hosts
	texts []string
	hosts map[string][]string // by text
}

func (l *noteLines) add(host, text string) {
	if l.hosts == nil {
		l.hosts = map[string][]string{}
	}
	if l.of < manyHosts {
		text = host + ": " + text
	}
	if l.hosts[text] == nil {
		l.texts = append(l.texts, text)
	}
	if !slices.Contains(l.hosts[text], host) {
		l.hosts[text] = append(l.hosts[text], host)
	}
}

// all returns the remarks. Of many hosts those of the most hosts come first, and not all.
func (l *noteLines) all() (out []string) {
	if l.of < manyHosts {
		return l.texts
	}
	slices.SortStableFunc(l.texts, func(a, b string) int { return len(l.hosts[b]) - len(l.hosts[a]) })
	for i, text := range l.texts {
		if i == mostNamed {
			return append(out, fmt.Sprintf("%d more remarks of hosts", len(l.texts)-i))
		}
		if hosts := l.hosts[text]; len(hosts) == 1 {
			out = append(out, hosts[0]+": "+text)
		} else {
			out = append(out, fmt.Sprintf("%s (%d hosts)", text, len(hosts)))
		}
	}
	return out
}

// notices are those of hosts during a statement. Of many hosts the same text is shown once.
type notices struct {
	mu   sync.Mutex
	said map[string]bool
}

// text returns a notice as it is shown; "": it is not.
func (n *notices) text(host, text string, hosts int) string {
	if hosts < manyHosts {
		return host + ": " + text
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said[text] || len(n.said) > 2*mostNamed {
		return ""
	}
	if n.said == nil {
		n.said = map[string]bool{}
	}
	n.said[text] = true
	return host + ", and perhaps others: " + text
}

// Summary adds up the summaries of the hosts. It adds which hosts did not answer,
// and how far their clocks differ.
func (g *gathered) Summary() wire.Summary {
	if g.from != nil && !g.s.reduces { // the clocks are known by what hosts have sent
		g.s.clocks.forget()
		g.s.clocks.measure(g.ctx, g.s.answered())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	sum := wire.Summary{Rows: g.rows, Elapsed: g.took, Hosts: states(g.parts)}
	lines := noteLines{of: len(g.s.members)}
	for _, p := range g.parts {
		if p.res == nil {
			continue
		}
		of := p.res.Summary()
		sum.Losses = add(sum.Losses, of.Losses)
		sum.Sample = sum.Sample || of.Sample
		sum.Counts = add(sum.Counts, of.Counts)
		sum.Cost += of.Cost
		if p.member.shard != nil {
			sum.Notes = append(sum.Notes, of.Notes...) // they name hosts
			continue
		}
		for _, n := range of.Notes {
			lines.add(p.name, n)
		}
	}
	sum.Notes = append(sum.Notes, lines.all()...)
	gaps := gapsOf(g.parts)
	if g.s.reduces {
		withGaps(sum.Hosts, gaps)
	} else {
		sum.Notes = append(append(sum.Notes, coverage(allStates(g.parts))), gapNotes(gaps)...)
		if len(gaps) > 0 {
			sum.Losses = add(sum.Losses, []wire.Loss{{Cause: gapCause, N: uint64(len(gaps))}})
		}
	}
	if note := unlooked(g.parts); note != "" {
		sum.Notes = append(sum.Notes, note)
	}
	sum.Notes = append(sum.Notes, g.footnotes...)
	if len(g.shift) > 0 && len(g.parts) > 1 {
		if within, ok := g.s.clocks.within(); ok {
			sum.Notes = append(sum.Notes, "first and last values are right within ±"+roundedUp(within))
		} else {
			sum.Notes = append(sum.Notes, "first and last values are by the clocks of the hosts, whose difference is unknown")
		}
	}
	return sum
}

// add adds up losses by cause.
func add(all, more []wire.Loss) []wire.Loss {
	for _, l := range more {
		i := slices.IndexFunc(all, func(o wire.Loss) bool { return o.Cause == l.Cause })
		if i < 0 {
			all = append(all, l)
		} else {
			all[i].N += l.N
		}
	}
	return all
}
