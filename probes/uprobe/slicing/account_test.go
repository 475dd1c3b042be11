package slicing

import (
	"testing"
	"time"
)

// TestAccount: what is spent when the account allows it stays within the budget in the long
// run.
func TestAccount(t *testing.T) {
	const second = int64(time.Second)
	a := Account{Share: 0.01, Floor: 0.1}
	a.Begin(1)
	spent := 0.0
	for now := int64(0); now < 20*second; {
		const cost = 2e6
		if wait := int64(a.Wait()); wait > 0 {
			a.Add(wait, wait, 0, 0)
			now += wait
			continue
		}
		a.Add(1000, 1000, cost, 0)
		now += 1000
		spent += cost
	}
	if budget := 0.01 * 20e9; spent > 1.05*budget || spent < 0.95*budget {
		t.Errorf("%.0f ns were spent, %.0f allowed", spent, budget)
	}
	// What was spent at once is repaid over some seconds, in which slices have less.
	a.Add(second/100, second/100, second/20, 0) // half of what these seconds earn
	a.Spread()
	if wait := a.Wait(); wait > 0 {
		t.Errorf("slices wait for %v after what was spent at once", wait)
	}
	for _, want := range []float64{0.5, 1} {
		for range 10 * 10 {
			a.Add(second/10, second/10, 0, 0)
			if share := a.ForSlices() / a.Earning(); want < 1 && (share < 0.49 || share > 1) {
				t.Fatalf("slices have %g of the budget while a debt is repaid", share)
			}
		}
		a.Add(second/10, second/10, 0, 0)
		if share := a.ForSlices() / a.Earning(); want == 1 && share < 0.99 {
			t.Errorf("slices have %g of the budget when nothing is owed", share)
		}
	}
	// An idle program earns what its floor does.
	for range 100 {
		a.Add(second/10, 0, 0, 0)
	}
	if e := a.Earning(); e < 0.00099 || e > 0.00101 {
		t.Errorf("an idle program earns %g", e)
	}
	// Costs beside slices leave less for these, but never nothing.
	for range 100 {
		a.Add(second/10, second/10, 0, second/1000)
	}
	if gap, most := a.Gap(1e6), time.Duration(1e6/0.01/leastForSlices); gap > most*101/100 || gap < most*99/100 {
		t.Errorf("slices come each %v, at least each %v is due", gap, most)
	}
}
