package grant

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"endoscope/planner/plan"
)

func TestPrefixCovers(t *testing.T) {
	for _, c := range []struct {
		prefix, address string
		want            bool
	}{
		{"https://a.example", "https://a.example/x?y=1", true},
		{"https://a.example", "https://A.EXAMPLE:443/x", true},
		{"HTTPS://A.example:443/", "https://a.example", true},
		{"https://a.example", "https://a.example/any/%2e%2e/path;here//", true}, // no path of this host is excluded
		{"https://a.example/in", "https://a.example/in", true},
		{"https://a.example/in", "https://a.example/in/", true},
		{"https://a.example/in", "https://a.example/in?x=/../out", true},
		{"https://a.example/in/", "https://a.example/in/x", true},
		{"https://a.example/in", "https://a.example/in/a-b_c~d.e/$f:g@h,i=j+k!", true},
		{"http://[::1]:8080/x", "http://[::1]:8080/x/y", true},
		{"http://[::1]:8080/x", "http://[0:0:0:0:0:0:0:1]:8080/x/y", true},
		{"https://xn--bcher-kva.example/in", "https://XN--BCHER-KVA.example/in", true},
		{"http://127.0.0.1:9/in", "http://127.0.0.1:9/in/x", true},

		// Another server, or one that not everybody takes for this one.
		{"https://a.example", "http://a.example/", false},
		{"https://a.example", "https://a.example:444/", false},
		{"https://a.example", "https://a.example:0443/", false},
		{"https://a.example", "https://a.example:/", false},
		{"https://a.example", "https://a.example.org/", false},
		{"https://a.example", "https://a.example./", false},
		{"https://a.example", "https://a.example@b.org/", false},
		{"https://a.example", "https://user@a.example/", false},
		{"https://a.example", "https://@a.example/", false},
		{"https://a.example", "https://b.org#@a.example/", false},
		{"https://a.example", "https://a.example#@b.org/", false},
		{"https://a.example", "https://b.org\\@a.example/", false},
		{"https://a.example", "https://a.example\\@b.org/", false},
		{"https://a.example", "https://a%2eexample/", false},
		{"https://a.example", "https://a\u3002example/", false},
		{"https://a.example", "https://\uff41.example/", false},
		{"https://a.example", "https:a.example", false},
		{"https://a.example", "https:///a.example", false},
		{"https://a.example", "//a.example", false},
		{"http://127.0.0.1", "http://127.1/", false},
		{"http://127.0.0.1", "http://0x7f000001/", false},
		{"http://127.0.0.1", "http://[::ffff:127.0.0.1]/", false},
		{"http://[fe80::1]", "http://[fe80::1%25eth0]/", false},

		// Another path.
		{"https://a.example/in", "https://a.example/", false},
		{"https://a.example/in", "https://a.example/inside", false},
		{"https://a.example/in", "https://a.example/IN", false},
		{"https://a.example/in/", "https://a.example/in", false},
		{"https://a.example/in/x", "https://a.example/in?/x", false},

		// A path that some take for another.
		{"https://a.example/in", "https://a.example//in", false},
		{"https://a.example/in", "https://a.example/in//x", false},
		{"https://a.example/in", "https://a.example/./in", false},
		{"https://a.example/in", "https://a.example/x/../in", false},
		{"https://a.example/in", "https://a.example/in/../out", false},
		{"https://a.example/in", "https://a.example/in/..", false},
		{"https://a.example/in", "https://a.example/in/.../out", false},
		{"https://a.example/in", "https://a.example/in/x./out", false},
		{"https://a.example/in", "https://a.example/in/%2e%2e/out", false},
		{"https://a.example/in", "https://a.example/in/%2E%2E%2Fout", false},
		{"https://a.example/in", "https://a.example/in/.%2e/out", false},
		{"https://a.example/in", "https://a.example/in/%252e%252e/out", false},
		{"https://a.example/in", "https://a.example/in/..%5cout", false},
		{"https://a.example/in", "https://a.example/in/..\\out", false},
		{"https://a.example/in", "https://a.example/in\\..\\out", false},
		{"https://a.example/in", "https://a.example/in/..;/out", false},
		{"https://a.example/in", "https://a.example/in/..;a=b/out", false},
		{"https://a.example/in", "https://a.example/in;/out", false},
		{"https://a.example/in", "https://a.example/in/..%3b/out", false},
		{"https://a.example/in", "https://a.example/in/%c0%ae%c0%ae/out", false},
		{"https://a.example/in", "https://a.example/in/\uff0e\uff0e/out", false},
		{"https://a.example/in", "https://a.example/in/..%00/out", false},
		{"https://a.example/in", "https://a.example/in/%0d%0aHost:b.org", false},
		{"https://a.example/in", "https://a.example/%69n/x", false},
		{"https://a.example/in", "https://a.example/in/x\t/out", false},
		{"https://a.example/in", "https://a.example/in/x /out", false},
	} {
		p, err := ParsePrefix(c.prefix)
		if err != nil {
			t.Fatal(err)
		}
		g := &Grant{User: "alice", Webhooks: []Prefix{p}}
		if err := g.MayPost(c.address); (err == nil) != c.want {
			t.Errorf("%s covers %s: %v, want %t", c.prefix, c.address, err, c.want)
		}
	}
}

// A prefix that receivers could read differently is refused.
func TestAmbiguousPrefixes(t *testing.T) {
	for _, text := range []string{"", "a.example", "ftp://a.example", "https://a.example/x?y", "https://a.example/x#y", "https://u@a.example/", "https://a.example/../x",
		"https://a.example/x//y", "https://a.example/%69n", "https://a.example/in;v=1", "https://a.example\\in", "https://b\u00fccher.example", "https://a.example:99999", "https:///in"} {
		if p, err := ParsePrefix(text); err == nil {
			t.Errorf("%s is the prefix %s", text, p)
		}
	}
}

// Usage returns to zero after concurrent use, also when done is called twice.
func TestAccountIsExact(t *testing.T) {
	a := NewAccount(Limits{Queries: 3, Probes: 10, Memory: 1000, Sessions: 3})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				leave, err := a.Enter()
				if err != nil {
					continue
				}
				if done, err := a.Begin(Demand{Probes: 4, Memory: 300}); err == nil {
					if u := a.Usage(); u.Queries > 3 || u.Probes > 10 || u.Memory > 1000 || u.Sessions > 3 {
						t.Errorf("in use: %+v", u)
					}
					done()
					done()
				}
				leave()
				leave()
			}
		})
	}
	all.Wait()
	if u := a.Usage(); u != (Usage{}) {
		t.Errorf("left in use: %+v", u)
	}
}

// Over time the rate is not exceeded; a batch larger than one second's worth is paid
// for by later ones.
func TestAdmitBoundsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAccount(Limits{Events: 1000})
		began := time.Now()
		var passed, refused uint64
		for time.Since(began) < 300*time.Millisecond || refused == 0 || passed < 1000 {
			if a.Admit(500) {
				passed += 500
			} else {
				refused += 500
			}
			time.Sleep(time.Millisecond) // at the pace of a source
		}
		most := uint64(1000*(1+time.Since(began).Seconds())) + 500
		if passed < 1000 || passed > most {
			t.Errorf("%d events passed, at most %d may", passed, most)
		}
		if u := a.Usage(); u.Events != passed || u.Dropped != refused {
			t.Errorf("counted %+v, want %d and %d", u, passed, refused)
		}
		if !NewAccount(Limits{Events: 10}).Admit(100_000) {
			t.Error("the first batch is refused, as all that follow would be")
		}
	})
}

func TestNilIsEverything(t *testing.T) {
	var g *Grant
	if g.MayTrace("x") != nil || g.MayStart() != nil || g.MayModel() != nil || g.MayPost("http://x") != nil || !g.Rules() || !g.Owns("x") || g.Sees() != nil {
		t.Error("the engine's own user is refused something")
	}
	if p, err := g.MayRead("x.csv"); p != "x.csv" || err != nil {
		t.Errorf("reading: %q, %v", p, err)
	}
	done, err := g.Uses().Begin(Demand{Probes: 1 << 30})
	if err != nil {
		t.Error(err)
	}
	done()
	if !g.Uses().Admit(1 << 40) {
		t.Error("events are limited")
	}
}

// The zero grant permits nothing.
func TestZeroIsNothing(t *testing.T) {
	g := &Grant{User: "alice", Viewer: &plan.Viewer{Name: "alice"}}
	for what, err := range map[string]error{"trace": g.MayTrace("x"), "start": g.MayStart(), "model": g.MayModel(), "post": g.MayPost("http://x")} {
		if err == nil {
			t.Errorf("%s is allowed", what)
		}
	}
	if _, err := g.MayRead("/etc/passwd"); err == nil {
		t.Error("reading is allowed")
	}
	if _, err := g.MayWrite("/tmp/x.csv"); err == nil {
		t.Error("writing is allowed")
	}
	if g.Rules() || g.Owns("bob") || !g.Owns("alice") {
		t.Error("whose is what")
	}
	// A user who may see any process still sees only their own queries.
	if v := (&Grant{User: "alice"}).Sees(); v == nil || v.Name != "alice" || !v.Any {
		t.Errorf("without a viewer: %+v", v)
	}
}
