package replay

import (
	"math"
	"regexp"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseTimeAgainstOracle(t *testing.T) {
	// time.Parse also takes a comma before the fraction, an hour of one digit and
	// an offset of 24 hours.
	strict := regexp.MustCompile(`T\d\d:\d\d:\d\d(\.\d+)?(Z|[-+]([01]\d|2[0-3]):[0-5]\d)$`)
	check := func(t *rapid.T, s string) {
		want, err := time.Parse(time.RFC3339, s)
		valid := err == nil && strict.MatchString(s) && want.Unix() >= -maxSeconds && want.Unix() <= maxSeconds
		got, ok := parseTime([]byte(s))
		if ok != valid || ok && got != want.UnixNano() {
			t.Fatalf("%q is %d, %v; want %d, %v", s, got, ok, want.UnixNano(), err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64().Draw(t, "ns")
		zone := rapid.IntRange(-23*60-59, 23*60+59).Draw(t, "zone")
		s := time.Unix(0, ns).In(time.FixedZone("", zone*60)).Format(time.RFC3339Nano)
		check(t, s)
		b := []byte(s)
		b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("0123456789-:.TZ+,x")).Draw(t, "byte")
		check(t, string(b))
		check(t, string(b[:rapid.IntRange(0, len(b)).Draw(t, "length")]))
	})
}

func TestParseNumbersAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[-+]?[0-9]{0,20}(\.[0-9]{0,12})?(e[-+]?[0-9]{1,3})?`).Draw(t, "number")
		wantInt, err := strconv.ParseInt(s, 10, 64)
		if got, ok := parseInt([]byte(s)); ok != (err == nil) || ok && got != wantInt {
			t.Fatalf("%q is the integer %d, %v; want %d, %v", s, got, ok, wantInt, err)
		}
		want, err := strconv.ParseFloat(s, 64)
		if got, ok := parseFloat([]byte(s)); ok != (err == nil) || ok && got != want {
			t.Fatalf("%q is %g, %v; want %g, %v", s, got, ok, want, err)
		}
		ns, ok := parseSeconds([]byte(s))
		if ok != (err == nil && math.Abs(want) <= maxSeconds+1) && math.Abs(math.Abs(want)-maxSeconds) > 2 {
			t.Fatalf("%q seconds: %v, want %g, %v", s, ok, want, err)
		}
		if ok && math.Abs(float64(ns)/1e9-want) > 1e-9*math.Max(1, math.Abs(want)) {
			t.Fatalf("%q seconds are %d ns", s, ns)
		}
	})
}

func TestParseIntAtTheLimits(t *testing.T) {
	for _, s := range []string{"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
		"9999999999999999999", "+9223372036854775807", "00000000000000000000001", "", "-", "+", "1 "} {
		want, err := strconv.ParseInt(s, 10, 64)
		if got, ok := parseInt([]byte(s)); ok != (err == nil) || ok && got != want {
			t.Errorf("%q is %d, %v; want %d, %v", s, got, ok, want, err)
		}
	}
}

func TestParseSecondsIsExact(t *testing.T) {
	for s, want := range map[string]int64{
		"1700000000.123456789":  1700000000123456789,
		"1700000000.1234567899": 1700000000123456789,
		"-0.5":                  -500000000,
		"-1.25":                 -1250000000,
		"1700000000":            1700000000000000000,
		"1700000000.":           1700000000000000000,
		".5":                    500000000,
		"1.7e9":                 1700000000000000000,
	} {
		if got, ok := parseSeconds([]byte(s)); !ok || got != want {
			t.Errorf("%s is %d, %v; want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{"", ".", "-", "x", "1.x", "9300000000", "1e300", "nan"} {
		if got, ok := parseSeconds([]byte(s)); ok {
			t.Errorf("%q was read as %d", s, got)
		}
	}
}
