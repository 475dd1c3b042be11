package codesite

import (
	"fmt"
	"testing"

	"endoscope/probes/testenv"
)

func TestPrices(t *testing.T) {
	for _, test := range []struct {
		method   string
		prices   Prices
		expected float64
	}{
		{Emulated, Prices{}, DefaultPrices.Emulated},
		{Stepped, Prices{}, DefaultPrices.Stepped},
		{Nop, Prices{}, DefaultPrices.Nop},
		{Nop, Prices{Emulated: 1, Stepped: 2, Nop: 3}, 3},
		{Stepped, Prices{Emulated: 1, Stepped: 2, Nop: 3}, 2},
	} {
		if got := test.prices.For(test.method); got != test.expected {
			t.Errorf("%s costs %v, want %v", test.method, got, test.expected)
		}
	}
}

// The prices decide between two legal sites.
func TestPricesChooseTheSite(t *testing.T) {
	const body = `.byte 0x0f, 0x1f, 0x44, 0, 0
	push %rbx
	pop %rbx`
	m := moduleAt(t, testenv.CompileText(t, ".S", fmt.Sprintf(twoCallers, body, "", ""), "-no-pie"))
	for _, test := range []struct {
		prices Prices
		want   string
	}{
		{Prices{}, Nop},
		{Prices{Emulated: 530, Stepped: 18_000, Nop: 18_000}, Emulated}, // before Linux 6.18
		{Prices{Emulated: 3, Stepped: 1, Nop: 2}, Nop},                  // after the push the entry state has changed
	} {
		site, err := In(m).EntrySiteFor(indexOf(t, m, "probed"), Need{Args: true, Return: true, Prices: test.prices})
		if err != nil || site.Method != test.want {
			t.Errorf("%+v: %s `%s` %v, want %s", test.prices, site.Method, site.Insn(), err, test.want)
		}
	}
}

func TestTextPages(t *testing.T) {
	nop := []byte{0x0f, 0x1f, 0x44, 0, 0}
	for _, test := range []struct {
		sites []Site
		want  int
	}{
		{nil, 0},
		{[]Site{{Offset: 0}, {Offset: 4095}}, 1},
		{[]Site{{Offset: 4095}, {Offset: 4096}, {Offset: 4095}}, 2},
		{[]Site{{Offset: 4093, Method: Nop, Bytes: nop}}, 2},
		{[]Site{{Offset: 4093, Method: Emulated, Bytes: nop}}, 1},
	} {
		if got := TextPages(test.sites); got != test.want {
			t.Errorf("%d pages for %+v, want %d", got, test.sites, test.want)
		}
	}
}
