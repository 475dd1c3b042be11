package parser

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
)

func TestNumber(t *testing.T) {
	for src, want := range map[string]Literal{
		"0":                    {Kind: LitInt},
		"010":                  {Kind: LitInt, Int: 10},
		"0xFF":                 {Kind: LitInt, Int: 255},
		"9223372036854775807":  {Kind: LitInt, Int: math.MaxInt64},
		"-9223372036854775808": {Kind: LitInt, Int: math.MinInt64},
		"9223372036854775808":  {Kind: LitUnsigned, Int: math.MinInt64},
		"0xffffffffffffffff":   {Kind: LitUnsigned, Int: -1},
		"1.5":                  {Kind: LitFloat, F: 1.5},
		".5":                   {Kind: LitFloat, F: 0.5},
		"2E-3":                 {Kind: LitFloat, F: 0.002},
		"70%":                  {Kind: LitPercent, F: 70},
		"0.5%":                 {Kind: LitPercent, F: 0.5},
		"100ns":                {Kind: LitDuration, Int: 100},
		"1.5us":                {Kind: LitDuration, Int: 1500},
		"3µs":                  {Kind: LitDuration, Int: 3000}, // the sign micro
		"3μs":                  {Kind: LitDuration, Int: 3000}, // the letter mu
		"0.1s":                 {Kind: LitDuration, Int: 1e8},  // exactly
		"0.3MS":                {Kind: LitDuration, Int: 3e5},
		"1min":                 {Kind: LitDuration, Int: 60e9},
		"1d":                   {Kind: LitDuration, Int: 86400e9},
		"-5ms":                 {Kind: LitDuration, Int: -5e6},
		"1.5KiB":               {Kind: LitSize, Int: 1536},
		"10mb":                 {Kind: LitSize, Int: 10e6},
		"7B":                   {Kind: LitSize, Int: 7},
	} {
		got, err := number(src)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		want.Text = src
		if *got != want {
			t.Errorf("%s is %+v, not %+v", src, *got, want)
		}
	}
}

// TestLiteralString prints literals that nobody wrote.
func TestLiteralString(t *testing.T) {
	for _, c := range []struct {
		literal Literal
		want    string
	}{
		{Literal{}, "NULL"},
		{Literal{Kind: LitBool, Int: 1}, "TRUE"},
		{Literal{Kind: LitBool}, "FALSE"},
		{Literal{Kind: LitInt, Int: -3}, "-3"},
		{Literal{Kind: LitFloat, F: 0.25}, "0.25"},
		{Literal{Kind: LitPercent, F: 99.5}, "99.5%"},
		{Literal{Kind: LitDuration, Int: 100e6}, "100ms"},
		{Literal{Kind: LitDuration, Int: 90e9}, "90s"},
		{Literal{Kind: LitDuration, Int: 86400e9}, "1d"},
		{Literal{Kind: LitDuration}, "0ns"},
		{Literal{Kind: LitSize, Int: 65536}, "64KiB"},
		{Literal{Kind: LitSize, Int: 10e6}, "10MB"},
		{Literal{Kind: LitString, Str: "it's"}, "'it''s'"},
	} {
		if got := c.literal.String(); got != c.want {
			t.Errorf("%+v prints %s, not %s", c.literal, got, c.want)
		}
	}
}

// TestLiteralRoundTrip checks that a duration or a size prints as text that
// means it.
func TestLiteralRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &Literal{Kind: rapid.SampledFrom([]LiteralKind{LitInt, LitDuration, LitSize}).Draw(t, "kind"), Int: rapid.Int64().Draw(t, "value")}
		again, err := number(l.String())
		if err != nil || again.Kind != l.Kind || again.Int != l.Int {
			t.Fatalf("%+v prints %s, which is %+v, %v", l, l, again, err)
		}
	})
}
