package fleet

import "testing"

// Answers that differ in numbers and their units have the same shape.
func TestNumbersHaveNoShape(t *testing.T) {
	for _, text := range []string{
		"about 4017ns an event", "about 4us an event", "about 12.3us an event", "about 18 µs an event",
		"about 3ms an event", "about 1.5 ms an event", "about 2s an event", "about 2min an event",
		"about 1min02s an event", "about 1h02min an event", "about 1d an event", "about 5 MiB an event",
	} {
		if got, want := numbers.ReplaceAllString(text, "#"), "about # an event"; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got, want := numbers.ReplaceAllString("every 5 minutes, 3 sums", "#"), "every # minutes, # sums"; got != want {
		t.Errorf("words: %q, want %q", got, want)
	}
}
