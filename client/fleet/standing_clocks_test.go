package fleet

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// clockedHosts are hosts of a published query, with what was measured of their clocks.
type clockedHosts struct {
	Published
	clocks map[string]clock
}

func (c clockedHosts) Clock(host string) (ahead, uncertain time.Duration, err error) {
	k, ok := c.clocks[host]
	if !ok {
		return 0, 0, errors.New("the clock is not known yet")
	}
	return k.ahead, k.uncertain, nil
}

// The coverage of a standing query names the hosts whose clocks certainly differ by more than
// its lateness.
func TestCoverageNamesWrongClocks(t *testing.T) {
	clocks := map[string]clock{"right": {90 * time.Millisecond, time.Millisecond}, "unsure": {200 * time.Millisecond, 150 * time.Millisecond},
		"fast": {3 * time.Second, 2 * time.Millisecond}, "slow": {-250 * time.Millisecond, time.Millisecond}}
	var all []*scripted
	for _, name := range []string{"right", "unsure", "fast", "slow", "unknown"} {
		h := newScripted(name, windowColumns...)
		h.end()
		all = append(all, h)
	}
	r := results(t, sessionOf(all...), windowStatement)
	s := &Standing{aligned: aligned{gathered: r.(*rounds).gathered}, lateness: 100 * time.Millisecond}
	s.from = clockedHosts{clocks: clocks}
	const want = "5 of 5 hosts, clocks that differ by more than 100ms: fast (3s ahead, ±2ms), slow (250ms behind, ±1ms)"
	if got := s.Coverage(); got != want {
		t.Errorf("the coverage is %q, want %q", got, want)
	}
	s.from = nil
	rest(t, r)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if note := strings.Join(r.Summary().Notes, "; "); !strings.Contains(note, "5 of 5 hosts") {
		t.Error(note)
	}
}
