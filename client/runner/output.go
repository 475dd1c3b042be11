package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"endoscope/client/render"
	"endoscope/server/wire"
)

// Output is the destination and format of rows.
type Output struct {
	W      io.Writer
	Format render.Format
	Render render.Options
	// Gone is closed when W has no reader any more; nil if only a failed write would
	// show that.
	Gone <-chan struct{}

	results int // that have been written
	holding bool
	held    []byte
}

// NewOutput returns an output that writes to w. An empty format is the default: a
// table on a terminal, else csv.
func NewOutput(w io.Writer, format render.Format) *Output {
	o := &Output{W: w, Format: format}
	f := fileOf(w)
	if f != nil && term.IsTerminal(int(f.Fd())) {
		o.Render.Size = func() (int, int) {
			columns, lines, err := term.GetSize(int(f.Fd()))
			if err != nil || columns <= 0 {
				return 80, 24
			}
			return columns, lines
		}
		o.Render.Auto = true
		o.Render.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	if o.Format == "" {
		o.Format = render.CSV
		if o.Terminal() {
			o.Format = render.Table
		}
	}
	return o
}

// hold keeps what is written until release or page is called.
func (o *Output) hold() { o.holding = true }

// release writes what is held, and holds no more.
func (o *Output) release() error {
	o.holding = false
	if len(o.held) == 0 {
		return nil
	}
	held := o.held
	o.held = nil
	_, err := o.Write(held)
	return err
}

// page shows what is held by a pager if it is longer than the terminal, and else writes it.
func (o *Output) page(pager func(text string) bool) error {
	if o.holding && pager != nil {
		_, lines := o.Render.Size()
		if bytes.Count(o.held, []byte{'\n'}) >= lines && pager(string(o.held)) {
			o.held = nil
		}
	}
	return o.release()
}

// Write implements io.Writer. It returns ErrOutputClosed if W has no reader any more. No other
// broken pipe has this meaning: neither that of a connection nor that of an INSERT.
func (o *Output) Write(b []byte) (int, error) {
	if o.holding {
		o.held = append(o.held, b...)
		return len(b), nil
	}
	n, err := o.W.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		err = ErrOutputClosed
	}
	return n, err
}

// fileOf returns the file that w is; nil if it is none.
func fileOf(w io.Writer) *os.File {
	switch f := w.(type) {
	case *os.File:
		return f
	case *File:
		return f.File
	}
	return nil
}

// cut records that a result ended before it was complete.
func (o *Output) cut() {
	if f, ok := o.W.(*File); ok {
		f.cut = true
	}
}

// renderer returns a renderer of a result.
func (o *Output) renderer(cols []wire.Column, about render.About) (render.Renderer, error) {
	if o.results > 0 && render.Single(o.Format) {
		return nil, fmt.Errorf("a file in the format %s holds one result, and this is another", o.Format)
	}
	options := o.Render
	options.About = about
	r, err := render.New(o.Format, o, cols, options)
	if err != nil {
		return nil, err
	}
	o.results++
	if f, ok := o.W.(*File); ok {
		f.began = true
	}
	return r, nil
}

// Terminal reports whether the output is a terminal.
func (o *Output) Terminal() bool { return o.Render.Size != nil }

// WatchReader sets Gone if W is a pipe, which must then stay open as long as the
// process runs. Without it, `endoscope -c ... | head -1` on a rare event would keep
// its probes attached until the next row is refused.
func (o *Output) WatchReader() {
	f := fileOf(o.W)
	if f == nil {
		return
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return
	}
	gone := make(chan struct{})
	o.Gone = gone
	// No events are requested: POLLERR and POLLHUP are always reported.
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	go func() {
		for {
			n, err := unix.Poll(fds, -1)
			if err == unix.EINTR {
				continue
			}
			if err == nil && n > 0 {
				close(gone)
			}
			return
		}
	}()
}
