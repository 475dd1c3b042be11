package operators

// Input is the progress of one port of an operator with several ports.
type Input struct {
	Watermark int64
	Latest    int64    // greatest time so far
	Ticks     [2]int64 // last Tick: final, preview
	Epoch     int      // barriers seen
	Closed    bool
}

// TickKind is the index of a Tick in Input.Ticks: 0 final, 1 preview.
func TickKind(preview bool) int {
	if preview {
		return 1
	}
	return 0
}
