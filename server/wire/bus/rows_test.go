package bus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

var groups = []wire.Column{{Name: "name", Type: types.Varchar}, {Name: "n", Type: types.Bigint}, {Name: "noise", Type: types.Bytes}}

// random returns rows that do not compress.
func random(rows, noise int) (bs []*batch.Batch) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range rows {
		if i%batch.MaxRows == 0 {
			bs = append(bs, batch.New([]types.Type{types.Varchar, types.Bigint, types.Bytes}))
		}
		b := make([]byte, noise)
		for k := range b {
			b[k] = byte(r.Uint32())
		}
		bs[len(bs)-1].AppendRow(types.Str(fmt.Sprint("group ", i%97)), types.Int(int64(i)), types.Value{Type: types.Bytes, S: string(b)})
	}
	return bs
}

func rowsOf(t *testing.T, parts [][]byte) (all [][]string) {
	t.Helper()
	for _, p := range parts {
		bs, err := DecodeRows(groups, p)
		if err != nil {
			t.Fatal(err)
		}
		var of []string
		for _, b := range bs {
			for i := range b.Len() {
				of = append(of, fmt.Sprint(b.Cols[0].Value(b.Row(i)).S, " ", b.Cols[1].Value(b.Row(i)).I, " ", len(b.Cols[2].Value(b.Row(i)).S)))
			}
			b.Release()
		}
		all = append(all, of)
	}
	return all
}

// Rows arrive as they were. Large ones are sent in parts, with each group in one of them.
func TestRowsInParts(t *testing.T) {
	for _, of := range []struct{ rows, noise int }{{0, 0}, {3, 10}, {5000, 400}} {
		bs := random(of.rows, of.noise)
		parts, err := EncodeRows(groups, []int{0}, bs)
		if err != nil {
			t.Fatal(err)
		}
		if many := len(parts) > 1; many != (of.rows > 1000) {
			t.Errorf("%d rows are in %d parts", of.rows, len(parts))
		}
		group := map[string]int{}
		var got []string
		for i, rows := range rowsOf(t, parts) {
			if len(parts[i]) > MostBytes {
				t.Errorf("part %d has %d bytes", i, len(parts[i]))
			}
			for _, r := range rows {
				var g, n, size int
				if _, err := fmt.Sscanf(r, "group %d %d %d", &g, &n, &size); err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprint(g)
				if at, seen := group[name]; seen && at != i {
					t.Errorf("group %s is in parts %d and %d", name, at, i)
				}
				group[name] = i
				got = append(got, r)
			}
		}
		var want []string
		for i := range of.rows {
			want = append(want, fmt.Sprint("group ", i%97, " ", i, " ", of.noise))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%d rows: others arrived", of.rows)
		}
		release(bs)
	}
}

// A row that the bus cannot carry is refused.
func TestRowsThatAreTooLong(t *testing.T) {
	bs := random(2, 3<<20)
	defer release(bs)
	if _, err := EncodeRows(groups, []int{0}, bs); err == nil {
		t.Error("a row of 3 MiB is sent")
	}
}

// Rows that were damaged, or are of other columns, are refused, and never a panic.
func FuzzDecodeRows(f *testing.F) {
	bs := random(20, 3)
	parts, err := EncodeRows(groups, nil, bs)
	release(bs)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(parts[0])
	f.Add([]byte{})
	f.Add(parts[0][:len(parts[0])/2])
	f.Fuzz(func(t *testing.T, part []byte) {
		if bs, err := DecodeRows(groups, part); err == nil {
			release(bs)
		}
	})
	if _, err := DecodeRows(groups[:1], parts[0]); err == nil {
		f.Error("rows of other columns are accepted")
	}
}
