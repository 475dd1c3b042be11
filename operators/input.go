package operators

type Input struct {
	Watermark int64
	Latest    int64    // greatest time so far
	Ticks     [2]int64 // last Tick: final, preview
	Epoch     int      // barriers seen
	Closed    bool
}

func TickKind(preview bool) int {
	if preview {
		return 1
	}
	return 0
}
