package batch

// AllRows is the selection of every row of a full batch.
var AllRows = func() (rows [MaxRows]uint16) {
	for i := range rows {
		rows[i] = uint16(i)
	}
	return rows
}()

// RowsOf returns the selected physical rows of b.
func RowsOf(b *Batch) []uint16 {
	if b.Sel != nil {
		return b.Sel
	}
	return AllRows[:b.N]
}
