package leb128

// AppendUleb appends v as an unsigned LEB128.
func AppendUleb(b []byte, v uint64) []byte {
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

// AppendSleb appends v as a signed LEB128.
func AppendSleb(b []byte, v int64) []byte {
	for ; v < -0x40 || v >= 0x40; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v)&0x7f)
}

// PutUleb writes v as an unsigned LEB128 that fills all of b. It returns false
// if v does not fit.
func PutUleb(b []byte, v uint64) bool {
	for i := range b {
		b[i] = byte(v & 0x7f)
		if v >>= 7; i < len(b)-1 {
			b[i] |= 0x80
		}
	}
	return v == 0
}
