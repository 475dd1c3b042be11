package bus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/klauspost/compress/zstd"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
	"endoscope/server/wire/columnar"
)

// Rows are sent as the messages of an Arrow stream, each as two byte strings with their
// lengths, compressed together.

// maxRowBytes limits the memory that the rows of one message may take.
const maxRowBytes = 64 << 20

var (
	zipper = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	})
	unzipper = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxRowBytes), zstd.WithDecoderMaxWindow(8<<20))
	})
)

// EncodeRows returns the rows of batches as the parts of an item, each of at most MostBytes
// where a single row is not longer. Rows with the same keys are in the same part; without
// keys rows are divided in their order.
func EncodeRows(cols []wire.Column, keys []int, bs []*batch.Batch) ([][]byte, error) {
	whole, err := encodePart(cols, bs)
	if err != nil || len(whole) <= MostBytes {
		return [][]byte{whole}, err
	}
	rows := 0
	for _, b := range bs {
		rows += b.Len()
	}
	for n := len(whole)/MostBytes + 1; ; n *= 2 {
		parts, fits, err := divide(cols, keys, bs, min(n, maxParts), rows)
		if err != nil {
			return nil, err
		}
		if fits || n >= min(rows, maxParts) {
			for _, p := range parts {
				if len(p) > 2*MostBytes-(64<<10) { // NATS does not accept it
					return nil, fmt.Errorf("a group or row has %d bytes, more than the bus carries", len(p))
				}
			}
			return parts, nil
		}
	}
}

// divide encodes rows in n parts, and reports whether each is at most MostBytes.
func divide(cols []wire.Column, keys []int, bs []*batch.Batch, n, rows int) (parts [][]byte, fits bool, err error) {
	views := make([][]*batch.Batch, n)
	defer func() {
		for _, part := range views {
			for _, v := range part {
				v.Release()
			}
		}
	}()
	at := 0
	for _, b := range bs {
		of := make([][]uint16, n)
		for i := range b.Len() {
			part := at * n / rows
			if keys != nil {
				part = int(hashRow(b, b.Row(i), keys) % uint64(n))
			}
			of[part] = append(of[part], uint16(b.Row(i)))
			at++
		}
		for part, rows := range of {
			if len(rows) > 0 {
				views[part] = append(views[part], b.View(rows))
			}
		}
	}
	fits = true
	for _, part := range views {
		p, err := encodePart(cols, part)
		if err != nil {
			return nil, false, err
		}
		fits = fits && len(p) <= MostBytes
		parts = append(parts, p)
	}
	return parts, fits, nil
}

// hashRow hashes the keys of a row, in the same way at every host.
func hashRow(b *batch.Batch, row int, keys []int) uint64 {
	h := fnv.New64a()
	for _, k := range keys {
		_, _ = h.Write(columnar.EncodeValues([]types.Value{b.Cols[k].Value(row)}))
	}
	return h.Sum64()
}

// messages are the messages of an Arrow stream, being written or read.
type messages struct{ bytes []byte }

func (m *messages) Send(d *flight.FlightData) error {
	for _, part := range [][]byte{d.GetDataHeader(), d.GetDataBody()} {
		m.bytes = binary.LittleEndian.AppendUint32(m.bytes, uint32(len(part)))
		m.bytes = append(m.bytes, part...)
	}
	return nil
}

func (m *messages) Recv() (*flight.FlightData, error) {
	if len(m.bytes) == 0 {
		return nil, io.EOF
	}
	var parts [2][]byte
	for i := range parts {
		if len(m.bytes) < 4 {
			return nil, errMessage
		}
		n := binary.LittleEndian.Uint32(m.bytes)
		if uint64(n) > uint64(len(m.bytes)-4) {
			return nil, errMessage
		}
		parts[i], m.bytes = m.bytes[4:4+n:4+n], m.bytes[4+n:]
	}
	if err := columnar.CheckHeader(parts[0]); err != nil {
		return nil, err
	}
	return &flight.FlightData{DataHeader: parts[0], DataBody: parts[1]}, nil
}

func encodePart(cols []wire.Column, bs []*batch.Batch) (out []byte, err error) {
	defer recovered(&err)
	enc, to := columnar.NewEncoder(cols, columnar.Exact), &messages{}
	w := flight.NewRecordWriter(to, ipc.WithSchema(enc.Schema()))
	if len(bs) > 0 {
		rec := enc.Record(bs)
		defer rec.Release()
		if err := w.Write(rec); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	z, err := zipper()
	if err != nil {
		return nil, err
	}
	return z.EncodeAll(to.bytes, nil), nil
}

// DecodeRows returns the rows of one part of an item.
func DecodeRows(cols []wire.Column, part []byte) (bs []*batch.Batch, err error) {
	defer recovered(&err)
	z, err := unzipper()
	if err != nil {
		return nil, err
	}
	plain, err := z.DecodeAll(part, nil)
	if err != nil {
		return nil, errMessage
	}
	r, err := flight.NewRecordReader(&messages{plain})
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Release()
	are, err := columnar.Columns(r.Schema())
	if err != nil {
		return nil, err
	}
	if len(are) != len(cols) {
		return nil, errMessage
	}
	for i, c := range are {
		if c.Type != cols[i].Type {
			return nil, errMessage
		}
	}
	dec := columnar.NewDecoder(cols)
	for r.Next() {
		more, err := dec.Decode(r.RecordBatch())
		if err != nil {
			release(bs)
			return nil, err
		}
		bs = append(bs, more...)
	}
	if err := r.Err(); err != nil && !errors.Is(err, io.EOF) {
		release(bs)
		return nil, err
	}
	return bs, nil
}

func release(bs []*batch.Batch) {
	for _, b := range bs {
		b.Release()
	}
}

// recovered, deferred, converts a panic of the Arrow library to an error.
func recovered(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("the rows cannot be read: %v", fault)
	}
}
