package remote_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"endoscope/client/remote"
	"endoscope/server/flight"
	"endoscope/server/wire"
)

// interrupted reads a statement's rows, and cuts the connection when it has some.
func interrupted(t *testing.T, statement string, after int) (rows int, sum wire.Summary, err error) {
	t.Helper()
	p := newProxy(t, serve(t, flight.Options{}).addr)
	e, err := remote.Dial(p.addr, remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := remote.Reconnecting(e).NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r := execute(t, x, statement)
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for cut := false; ; {
		ev, err := r.Next(ctx)
		if err != nil {
			return rows, r.Summary(), err
		}
		if ev.Batch != nil {
			rows += ev.Batch.Len()
			ev.Batch.Release()
		}
		if !cut && rows >= after {
			cut = true
			p.cut()
		}
	}
}

// A LIMIT is of the rows before a lost connection and those after it together.
func TestLimitOfAnInterruptedResult(t *testing.T) {
	rows, sum, err := interrupted(t, "SELECT timestamp FROM SAMPLE(cpu_usage, 50ms) LIMIT 6", 3)
	if !errors.Is(err, io.EOF) || rows != 6 || sum.Rows != 6 || len(sum.Losses) == 0 {
		t.Errorf("%d rows, %+v, %v", rows, sum, err)
	}
}

// Rows are not given twice: what begins anew is not executed again.
func TestWhatStartsOverIsNotResumed(t *testing.T) {
	_, _, err := interrupted(t, "SELECT n FROM series(20000000)", 1)
	var lost *remote.LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "first rows again") {
		t.Errorf("it ends with %v", err)
	}
}
