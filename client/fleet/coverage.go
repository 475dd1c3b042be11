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

// state returns what the result has of a host by its last part.
func (p *part) state() wire.HostState {
	out := wire.HostState{Name: p.name, State: wire.HostAnswered}
	var none *Silence
	switch {
	case errors.As(p.err, &none) && none.Since.IsZero():
		out.State, out.Why = wire.HostMissing, "it was never heard"
	case errors.As(p.err, &none):
		out.State, out.Why = wire.HostLate, silentSince(none.Since)
	case p.err != nil:
		out.State, out.Why = wire.HostMissing, p.err.Error()
	case p.silent && !p.over:
		out.State, out.Why = wire.HostLate, silentSince(p.heard)
	}
	return out
}

// silentSince is a reason that does not change while a host is silent.
func silentSince(t time.Time) string { return "silent since " + t.Format(time.TimeOnly) }

// states returns what the result has of each host, by name.
func states(parts []*part) (out []wire.HostState) {
	last, names := lastOf(parts)
	slices.Sort(names)
	for _, name := range names {
		out = append(out, last[name].state())
	}
	return out
}

// coverage describes how many hosts returned everything they have, and why the others did
// not: silent hosts, and those with an error.
func coverage(parts []*part) (notes []string) {
	last, names := lastOf(parts)
	var silent, missing []string
	declined := map[string][]string{}
	for _, name := range names {
		p := last[name]
		var none *Silence
		switch {
		case errors.As(p.err, &none):
			silent = append(silent, fmt.Sprintf("%s (%v)", name, none))
		case p.state().State == wire.HostLate:
			silent = append(silent, fmt.Sprintf("%s (%v)", name, &Silence{p.heard}))
		case p.err != nil:
			missing = append(missing, name)
			declined[p.err.Error()] = append(declined[p.err.Error()], name)
		}
	}
	text := fmt.Sprintf("%d of %d hosts", len(names)-len(silent)-len(missing), len(names))
	if len(silent) > 0 {
		text += fmt.Sprintf(", %d silent: %s", len(silent), some(silent))
	}
	var why []string
	for _, name := range missing {
		reason := last[name].err.Error()
		if len(names) < manyHosts {
			why = append(why, name+": "+reason)
		} else if hosts := declined[reason]; hosts != nil {
			why = append(why, some(hosts)+": "+strings.ReplaceAll(strings.TrimPrefix(reason, "error: "), "\n", " "))
			delete(declined, reason)
		}
	}
	if len(why) > 0 {
		text += " (" + strings.Join(why, "; ") + ")"
	}
	notes = append(notes, text)
	for _, p := range parts {
		var gap *Gap
		if errors.As(p.err, &gap) && last[p.name] != p {
			notes = append(notes, p.name+": "+gap.Error())
		}
	}
	return notes
}

// Coverage says how many hosts have answered, and which have not.
func (g *gathered) Coverage() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return coverage(g.parts)[0]
}

// gaps returns the number of restarts of hosts.
func gaps(parts []*part) (n uint64) {
	for _, p := range parts {
		var gap *Gap
		if errors.As(p.err, &gap) {
			n++
		}
	}
	return n
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
