package operators

// Tap observes an input of a join before the join: the latest time of the rows of each
// batch, and watermarks.
type Tap struct {
	Rows      func(latest int64)
	Watermark func(t int64)
}
