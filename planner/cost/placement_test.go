package cost

import "testing"

// TestPaperPlacement: the two plans of section 5.2 with the loads of section 7.4: a
// tenth of the tuples passes an aggregate that takes c, and a tuple takes n to send.
func TestPaperPlacement(t *testing.T) {
	const rate = 1000
	server := func(c, n float64) float64 {
		return Placement{In: rate, Tuple: c, Out: rate / 10, Net: n}.Cost()
	}
	client := func(c, n float64) float64 { return Placement{Out: rate, Net: n}.Cost() }
	if got := server(5e6, 1e6); got != rate*5e6+rate/10*1e6 {
		t.Errorf("N·Ttup + N'·Tnet is %v", got)
	}
	if server(5e6, 1e6) <= client(5e6, 1e6) {
		t.Error("the server's processor is loaded, and the aggregate stays there")
	}
	if server(1e6, 5e6) >= client(1e6, 5e6) {
		t.Error("the network is loaded, and every tuple is sent")
	}
}

func TestMover(t *testing.T) {
	m := NewMover(1)
	next := func(want int, costs ...float64) {
		t.Helper()
		for i := range costs {
			costs[i] *= 1e6
		}
		if got := m.Next(costs); got != want {
			t.Fatalf("placement %d, want %d", got, want)
		}
	}
	// A gain must last.
	next(1, 1, 10)
	next(1, 12, 10)
	next(1, 1, 10)
	next(0, 1, 10)
	// No move soon after a move.
	for range afterMove {
		next(0, 100, 1)
	}
	next(0, 100, 1)
	next(1, 100, 1)
	// A trial move is undone at once, for some time; after that it counts as any other.
	next(1, 1, 100)
	next(1, 1, 100)
	next(1, 1, 100)
	next(1, 1, 100)
	next(0, 1, 100)
	m.Try()
	next(0, 1, 100)
	next(1, 100, 1)
	for range afterMove {
		next(1, 1, 100)
	}
	next(1, 1, 100)
	next(0, 1, 100)
	m.Try()
	for range afterMove {
		next(0, 1, 100)
	}
	next(0, 100, 1)
	next(1, 100, 1)
	// A forced move is made, and kept.
	m.Move(0)
	for range afterMove {
		next(0, 100, 1)
	}
	m.Move(1)
	// A small gain is ignored, and so is a large share of a negligible cost.
	for range 10 {
		next(1, 0.9, 1)
		next(1, 0.0001, 0.009)
	}
}
