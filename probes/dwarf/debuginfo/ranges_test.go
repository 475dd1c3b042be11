package debuginfo

import (
	"debug/dwarf"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"endoscope/probes/testenv"
)

// Ranges equal those that package dwarf finds, in either version.
func TestRanges(t *testing.T) {
	src := filepath.Join(t.TempDir(), "target.c")
	err := os.WriteFile(src, []byte(`
		__attribute__((section(".text.b"), noinline)) int b(int n) { for (int i = 0; i < n; i++) { int k = i * n; n -= k; } return n; }
		__attribute__((cold, noinline)) int c(int n) { return n + 2; }
		int main(int n, char **v) { return b(n) + c(n); }`), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		d, err := readFile(t, testenv.CompileC(t, src, version, "-O2", "-ffunction-sections"))
		if err != nil {
			t.Fatal(err)
		}
		var unit *dwarf.Entry
		lists := 0
		for r := d.Reader(); ; {
			e, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if e == nil {
				break
			}
			if e.Tag == dwarf.TagCompileUnit {
				unit = e
			}
			if e.Val(dwarf.AttrRanges) != nil {
				lists++
			}
			spent := 0
			got, err := d.Ranges(unit, e, func(n int) error { spent += n; return nil })
			want, wantErr := d.Data.Ranges(e)
			if (err != nil) != (wantErr != nil) || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %v: %x, %v; want %x, %v", version, e.Tag, got, err, want, wantErr)
			}
			if e.Val(dwarf.AttrRanges) != nil && spent < len(got) {
				t.Errorf("%d ranges were read for %d", len(got), spent)
			}
		}
		if lists == 0 {
			t.Errorf("%s: nothing has a list of ranges", version)
		}
	}
}

// The cost of a list is reported during reading, also of one that yields no
// range, which many entries could share.
func TestRangesAreSpent(t *testing.T) {
	enough := errors.New("enough")
	bases := make([]byte, 16*1000)
	for i := 0; i < len(bases); i += 16 {
		for k := range 8 {
			bases[i+k] = 0xff // a base address
		}
	}
	d := &Info{ranges: bases}
	e := &dwarf.Entry{Field: []dwarf.Field{{Attr: dwarf.AttrRanges, Val: int64(0), Class: dwarf.ClassRangeListPtr}}}
	left := 100
	_, err := d.Ranges(e, e, func(n int) error {
		if left -= n; left < 0 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("error %v", err)
	}
}
