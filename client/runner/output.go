package runner

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"endoscope/client/render"
)

// Output is the destination and format of rows.
type Output struct {
	W      io.Writer
	Format render.Format
	Render render.Options
	// Gone is closed when W has no reader any more; nil if only a failed write would
	// show that.
	Gone <-chan struct{}

	holding bool
	held    []byte
}

// NewOutput returns an output that writes to w. An empty format is the default: a
// table on a terminal, else csv.
func NewOutput(w io.Writer, format render.Format) *Output {
	o := &Output{W: w, Format: format}
	f, isFile := w.(*os.File)
	if isFile && term.IsTerminal(int(f.Fd())) {
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

// Terminal reports whether the output is a terminal.
func (o *Output) Terminal() bool { return o.Render.Size != nil }

// WatchReader sets Gone if W is a pipe, which must then stay open as long as the
// process runs. Without it, `endoscope -c ... | head -1` on a rare event would keep
// its probes attached until the next row is refused.
func (o *Output) WatchReader() {
	f, ok := o.W.(*os.File)
	if !ok {
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
