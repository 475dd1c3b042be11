package fleettrust

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// The costs of trust, for each message. Measured beside other work: cpu-ns/op is the time
// of the processor, which other processes do not change much.
//
//	go test -run '^$' -bench . ./server/wire/fleettrust

// processor reports the processor's time for each iteration. b.Loop must not be used
// between its call and that of what it returns.
func processor(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// benchLife is longer than a benchmark: its clock stands still.
const benchLife = time.Minute

func BenchmarkSign(b *testing.B) {
	f := newFleet(b)
	host := f.enroll("db1", Host, day)
	body, h := make([]byte, 200), f.header(benchLife)
	defer processor(b)()
	for range b.N {
		_, err := host.Sign(KindHeartbeat, h, body)
		must(b, err)
	}
}

func BenchmarkVerify(b *testing.B) {
	f := newFleet(b)
	m, err := f.enroll("db1", Host, day).Sign(KindHeartbeat, f.header(benchLife), make([]byte, 200))
	must(b, err)
	for _, known := range []bool{true, false} {
		b.Run(fmt.Sprintf("member known=%t", known), func(b *testing.B) {
			t := f.trust()
			defer processor(b)()
			for range b.N {
				if !known {
					clear(t.members)
				}
				_, err := t.Verify(KindHeartbeat, m)
				must(b, err)
			}
		})
	}
}

// A forged message costs its receiver no more than a valid one.
func BenchmarkRefuse(b *testing.B) {
	f := newFleet(b)
	m, err := f.enroll("db1", Host, day).Sign(KindHeartbeat, f.header(benchLife), make([]byte, 200))
	must(b, err)
	m[len(m)-100]++
	t := f.trust()
	defer processor(b)()
	for range b.N {
		if _, err := t.Verify(KindHeartbeat, m); ReasonOf(err) != Forged {
			b.Fatal(err)
		}
	}
}

// A query, sealed to many hosts by its author, and opened by one of them.
func BenchmarkQuery(b *testing.B) {
	f := newFleet(b)
	alice, host := f.enroll("alice", Author, day), f.enroll("db1", Host, day)
	for _, hosts := range []int{1, 1000} {
		all := []*Member{host.Member}
		for len(all) < hosts { // other fingerprints with the same key
			m := *host.Member
			m.Fingerprint[0], m.Fingerprint[1], m.Fingerprint[2] = byte(len(all)), byte(len(all)>>8), 1
			all = append(all, &m)
		}
		var q *SealedQuery
		b.Run(fmt.Sprintf("seal to %d", hosts), func(b *testing.B) {
			defer processor(b)()
			for range b.N {
				var err error
				q, err = alice.SealQuery(Query{Body: make([]byte, 1000)}, f.header(time.Hour), all, nil)
				must(b, err)
			}
			bytes := len(q.Message)
			for _, k := range q.Keys {
				bytes += len(k)
			}
			b.ReportMetric(float64(bytes), "bytes")
		})
		b.Run(fmt.Sprintf("open of %d", hosts), func(b *testing.B) {
			t := f.trust()
			defer processor(b)()
			for range b.N {
				_, err := open(t, host, q)
				must(b, err)
			}
		})
	}
}

// A result of a host, of 4 KiB and 256 KiB, sealed by it and opened by its reader.
func BenchmarkSession(b *testing.B) {
	f := newFleet(b)
	alice, host := f.enroll("alice", Author, day), f.enroll("db1", Host, day)
	for _, kib := range []int{4, 256} {
		s, payload := f.session(host, alice, ID{}), make([]byte, kib<<10)
		b.Run(fmt.Sprintf("seal %d KiB", kib), func(b *testing.B) {
			var dst []byte
			defer processor(b)()
			for range b.N {
				dst = s.Seal(dst[:0], "s", payload)
			}
			b.ReportMetric(float64(len(dst)-len(payload)), "added-bytes")
		})
		b.Run(fmt.Sprintf("open %d KiB", kib), func(b *testing.B) {
			inbox := NewInbox(alice, f.trust(), ID{}, Host)
			var dst, msg []byte
			defer processor(b)()
			for range b.N {
				msg = s.Seal(msg[:0], "s", payload) // each is accepted once
				var err error
				_, dst, err = inbox.Open(dst[:0], "s", msg)
				must(b, err)
			}
		})
	}
	b.Run("first message", func(b *testing.B) {
		msg, t := f.session(host, alice, ID{}).Seal(nil, "s", nil), f.trust()
		defer processor(b)()
		for range b.N {
			_, _, err := NewInbox(alice, t, ID{}, Host).Open(nil, "s", msg)
			must(b, err)
		}
	})
}
