package resolve

import "io"

// pageReader reads a file or a process's memory by whole pages and keeps the pages
// read last: the functions of a query lie close together, often several in one page.
// It reads only requested pages.
type pageReader struct {
	r    io.ReaderAt
	at   int64 // offset of kept
	kept []byte
}

// read fills b with the contents at offset.
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
