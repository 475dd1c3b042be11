package resolve

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

// countedReads counts the reads of a file.
type countedReads struct {
	io.ReaderAt
	n int
}

func (r *countedReads) ReadAt(b []byte, at int64) (int, error) {
	r.n++
	return r.ReaderAt.ReadAt(b, at)
}

func TestPages(t *testing.T) {
	data := make([]byte, 5*PageSize+100)
	for i := range data {
		data[i] = byte(rand.Int())
	}
	p := &pageReader{r: bytes.NewReader(data)}
	for range 10_000 {
		at := rand.IntN(len(data))
		b := make([]byte, rand.IntN(min(len(data)-at, 3*PageSize)))
		if err := p.read(b, int64(at)); err != nil || !bytes.Equal(b, data[at:at+len(b)]) {
			t.Fatalf("%d bytes at %d: %v", len(b), at, err)
		}
	}
	if err := p.read(make([]byte, 101), 5*PageSize); err != io.EOF {
		t.Errorf("behind the end: %v", err)
	}
	if err := p.read(make([]byte, 100), 5*PageSize); err != nil {
		t.Errorf("up to the end: %v", err)
	}
}

func TestPagesReadOnce(t *testing.T) {
	r := &countedReads{ReaderAt: bytes.NewReader(make([]byte, 4*PageSize))}
	p := &pageReader{r: r}
	for at := int64(0); at < 4*PageSize; at += 64 {
		if err := p.read(make([]byte, 64), at); err != nil {
			t.Fatal(err)
		}
	}
	if r.n != 4 {
		t.Errorf("%d reads of 4 pages", r.n)
	}
}
