package columnar

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"pgregory.net/rapid"

	"endoscope/operators/batch"
	_ "endoscope/operators/optest/seeds" // fixed seeds: the same cases in every run
	"endoscope/planner/types"
	"endoscope/server/wire"
)

var kinds = []types.Type{types.Null, types.Boolean, types.Bigint, types.Ubigint, types.Double, types.Varchar, types.Timestamp, types.Duration, types.Bytes, types.List, types.Encoding}

// shape is an encoding without content.
type shape string

func (s shape) String() string               { return "a " + string(s) }
func (s shape) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "{%q:1}", string(s)), nil }

func anyValue(t *rapid.T, typ types.Type, depth int) types.Value {
	if typ == types.Null || rapid.IntRange(0, 5).Draw(t, "null") == 0 {
		return types.NullOf(typ)
	}
	switch typ {
	case types.Boolean:
		return types.Bool(rapid.Bool().Draw(t, "bool"))
	case types.Double:
		return types.Float(rapid.Float64().Draw(t, "float"))
	case types.Varchar, types.Bytes:
		return types.Value{Type: typ, S: rapid.SampledFrom([]string{"", "a", "b", "it's", "\x00\xff", strings.Repeat("long ", 50)}).Draw(t, "text") +
			rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "more")}
	case types.List:
		vs := make([]types.Value, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range vs {
			of := rapid.SampledFrom(kinds).Draw(t, "type")
			if depth > 2 && of == types.List {
				of = types.Bigint
			}
			vs[i] = anyValue(t, of, depth+1)
		}
		return types.ListOf(vs)
	case types.Encoding:
		return types.Value{Type: typ, A: shape(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "shape"))}
	}
	return types.Value{Type: typ, I: rapid.Int64().Draw(t, "int")}
}

// show renders every property of a value that can be observed.
func show(v types.Value) string {
	switch {
	case v.IsNull:
		return "NULL"
	case v.Type == types.List:
		var b strings.Builder
		for _, e := range v.A.([]types.Value) {
			fmt.Fprintf(&b, "%v:%s,", e.Type, show(e))
		}
		return "[" + b.String() + "]"
	case v.Type == types.Encoding:
		return encodingText(v.A) + encodingJSON(v.A)
	}
	return fmt.Sprintf("%d %x %q", v.I, math.Float64bits(v.F), v.S)
}

// Any sequence of batches, with any selections and dictionaries, reads back as
// written, in as many records as were written.
func TestRecordsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 4).Draw(t, "types")
		cols := make([]wire.Column, len(kinds))
		for i, typ := range kinds {
			cols[i] = wire.Column{Name: fmt.Sprint("c", i), Type: typ}
		}
		e := NewEncoder(cols, Exact)
		var stream bytes.Buffer
		w := ipc.NewWriter(&stream, ipc.WithSchema(e.Schema()))
		var want []string
		pool := batch.NewPool(kinds)
		for range rapid.IntRange(0, 4).Draw(t, "records") {
			var bs []*batch.Batch
			for range rapid.IntRange(0, 3).Draw(t, "batches") {
				b := pool.Get()
				if rapid.Bool().Draw(t, "another dictionary") {
					b = batch.New(kinds)
				}
				for range rapid.IntRange(0, 70).Draw(t, "rows") {
					row := make([]types.Value, len(kinds))
					for c, typ := range kinds {
						row[c] = anyValue(t, typ, 0)
					}
					b.AppendRow(row...)
				}
				if rapid.Bool().Draw(t, "selected") {
					b.Sel = []uint16{}
					for i := range b.N {
						if i%3 != 0 {
							b.Sel = append(b.Sel, uint16(i))
						}
					}
				}
				for i := range b.Len() {
					want = append(want, line(b, i))
				}
				bs = append(bs, b)
			}
			if err := w.Write(e.Record(bs)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := ipc.NewReader(&stream)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		got, err := Columns(r.Schema())
		if err != nil || fmt.Sprint(got) != fmt.Sprint(cols) {
			t.Fatalf("the columns are %v, %v", got, err)
		}
		d := NewDecoder(got)
		var have []string
		for r.Next() {
			bs, err := d.Decode(r.RecordBatch())
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range bs {
				for i := range b.Len() {
					have = append(have, line(b, i))
				}
			}
		}
		if r.Err() != nil || strings.Join(have, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%v\nwrote\n%s\nread\n%s", r.Err(), strings.Join(want, "\n"), strings.Join(have, "\n"))
		}
	})
}

func line(b *batch.Batch, i int) string {
	var cells []string
	for c := range b.Cols {
		cells = append(cells, show(b.Cols[c].Value(b.Row(i))))
	}
	return strings.Join(cells, "|")
}

// A growing dictionary is sent whole while it is small. Beyond that each record has
// the strings that it needs.
func TestLargeDictionariesAreNotSentWhole(t *testing.T) {
	cols := []wire.Column{{Name: "s", Type: types.Varchar}}
	e, d := NewEncoder(cols, Exact), NewDecoder(cols)
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(e.Schema()))
	pool := batch.NewPool([]types.Type{types.Varchar})
	const batches = 40
	for n := range batches {
		b := pool.Get()
		for i := range batch.MaxRows {
			b.AppendRow(types.Str(fmt.Sprintf("string number %d", n*batch.MaxRows+i)))
		}
		if err := w.Write(e.Record([]*batch.Batch{b})); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if limit := batches * batch.MaxRows * 64; stream.Len() > limit {
		t.Errorf("%d bytes for %d strings", stream.Len(), batches*batch.MaxRows)
	}
	r, err := ipc.NewReader(&stream)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	n := 0
	for r.Next() {
		bs, err := d.Decode(r.RecordBatch())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range bs {
			for i := range b.Len() {
				if got := b.Cols[0].Value(i).S; got != fmt.Sprintf("string number %d", n) {
					t.Fatalf("row %d is %s", n, got)
				}
				n++
			}
		}
	}
	if n != batches*batch.MaxRows {
		t.Errorf("%d rows", n)
	}
}

// Numbers are not copied.
func TestNumbersAreWrapped(t *testing.T) {
	b := batch.New([]types.Type{types.Bigint})
	b.AppendRow(types.Int(1))
	rec := NewEncoder([]wire.Column{{Name: "n", Type: types.Bigint}}, Exact).Record([]*batch.Batch{b})
	b.Cols[0].Int[0] = 2
	if got := rec.Column(0).ValueStr(0); got != "2" {
		t.Errorf("the record has %s", got)
	}
}

func FuzzValues(f *testing.F) {
	f.Add(EncodeValues([]types.Value{types.Int(-3), types.Str("x"), types.ListOf([]types.Value{types.Float(1), types.NullOf(types.Bigint)}), {Type: types.Encoding, A: shape("z")}}))
	f.Add(bytes.Repeat([]byte{byte(types.List), 1}, 1000))
	f.Add([]byte{byte(types.List), 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, src []byte) {
		vs, err := DecodeValues(src)
		if err != nil {
			if !errors.Is(err, errValue) {
				t.Error(err)
			}
			return
		}
		again, err := DecodeValues(EncodeValues(vs))
		if err != nil || len(again) != len(vs) {
			t.Fatalf("%d values, then %d, %v", len(vs), len(again), err)
		}
		for i := range vs {
			if show(vs[i]) != show(again[i]) {
				t.Errorf("%s became %s", show(vs[i]), show(again[i]))
			}
		}
	})
}

// Text in the forms for other clients is UTF-8; the form Exact keeps the bytes.
func TestTextIsUTF8(t *testing.T) {
	b := batch.New([]types.Type{types.Varchar, types.Bytes})
	b.AppendRow(types.Str("bad \xff\xfe"), types.Value{Type: types.Bytes, S: "\xff"})
	for form, want := range map[Form]string{Plain: "bad \ufffd", Coded: "bad \ufffd", Exact: "bad \xff\xfe"} {
		e := NewEncoder([]wire.Column{{Name: "s", Type: types.Varchar}, {Name: "x", Type: types.Bytes}}, form)
		r := e.Record([]*batch.Batch{b})
		texts := r.Column(0)
		if d, ok := texts.(*array.Dictionary); ok {
			texts = d.Dictionary()
		}
		if got := texts.(*array.String).Value(0); got != want {
			t.Errorf("form %d: %q, want %q", form, got, want)
		}
		if altered := e.Altered(); form == Plain && altered != 1 {
			t.Errorf("%d texts are said to be altered", altered)
		}
	}
}
