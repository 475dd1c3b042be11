package resolve

import "io"

// pageReader reads a file or a process' memory by whole pages and keeps what it
// read last: the functions of a query lie close together, often several in a
// page. It touches no page that is not asked for.
type pageReader struct {
	r    io.ReaderAt
	at   int64 // where kept begins
	kept []byte
}

// read fills b with what is at offset.
func (p *pageReader) read(b []byte, offset int64) error {
	end := offset + int64(len(b))
	if offset < p.at || end > p.at+int64(len(p.kept)) {
		first := offset &^ (PageSize - 1)
		size := int((end+PageSize-1)&^(PageSize-1) - first)
		if cap(p.kept) < size {
			p.kept = make([]byte, size)
		}
		n, err := p.r.ReadAt(p.kept[:size], first)
		p.at, p.kept = first, p.kept[:n]
		if end > first+int64(n) { // a file may end within its last page
			return err
		}
	}
	copy(b, p.kept[offset-p.at:])
	return nil
}
