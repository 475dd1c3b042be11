package batch

// Dict gives strings small consecutive codes. It only grows: a code, once
// given, means the same string for the life of the dictionary. One goroutine
// (the source that owns it) adds; readers use the snapshot that each column
// carries (Column.Values), so no lock is needed.
//
// A source whose strings are unbounded starts a new Dict when the old one
// passes its limit; operators that cache by dictionary key their caches by the
// *Dict pointer.
type Dict struct {
	values []string
	index  map[string]uint32
}

// NewDict returns an empty dictionary.
func NewDict() *Dict { return &Dict{index: make(map[string]uint32)} }

// Code returns the code of s, adding s if it is new.
func (d *Dict) Code(s string) uint32 {
	if c, ok := d.index[s]; ok {
		return c
	}
	c := uint32(len(d.values))
	d.values = append(d.values, s)
	d.index[s] = c
	return c
}

// CodeBytes is Code for a byte slice that the caller goes on using; it
// allocates only when the string is new.
func (d *Dict) CodeBytes(b []byte) uint32 {
	if c, ok := d.index[string(b)]; ok {
		return c
	}
	return d.Code(string(b))
}

// Len is the number of strings in the dictionary.
func (d *Dict) Len() int { return len(d.values) }

// Values is the dictionary as it stands: code i means Values()[i]. The slice
// must not be changed; later additions do not show in it.
func (d *Dict) Values() []string { return d.values[:len(d.values):len(d.values)] }
