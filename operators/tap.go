package operators

// Tap is told what arrives at an input of a join, before the join is: rows, by
// the time of the latest in a batch, and promises.
type Tap struct {
	Rows      func(latest int64)
	Watermark func(t int64)
}
