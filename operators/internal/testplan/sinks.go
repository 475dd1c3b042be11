package testplan

import (
	"bytes"
	"context"
	"io"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
)

// Nothing is a sink that only counts.
type Nothing struct{ Rows int }

func (n *Nothing) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	n.Rows += b.Len()
	return operators.More, nil
}

func (n *Nothing) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	return operators.More, nil
}

func (n *Nothing) Close(context.Context, int) error { return nil }

func Rate(b *testing.B, rows int) {
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

type MemoryFile struct {
	bytes.Buffer
	Closed bool
	Err    error
}

func (m *MemoryFile) Open(string) (io.WriteCloser, error) { return m, nil }

func (m *MemoryFile) Close() error { m.Closed = true; return nil }

func (m *MemoryFile) Write(p []byte) (int, error) {
	if m.Err != nil {
		return 0, m.Err
	}
	return m.Buffer.Write(p)
}

// Keeper is a consumer that keeps batches after the call.
type Keeper struct {
	Recorder
	Kept []*batch.Batch
}

func (k *Keeper) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	k.Kept = append(k.Kept, b.Retain())
	return operators.More, nil
}
