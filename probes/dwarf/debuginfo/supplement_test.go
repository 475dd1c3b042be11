package debuginfo

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
)

// common is the code that two programs share; its debug information is larger
// than that of the rest.
const common = `
	struct list { struct list *next; const char *name_of_this; enum colour { RED, GREEN, BLUE } colour; };
	typedef struct list *list_pointer;
	union either { long as_number; double as_fraction; struct list as_list; };
	long walk_along_the_list(list_pointer l, union either *e, int (*visit)(struct list *, unsigned char)) {
		long n = e->as_number;
		for (; l; l = l->next) n += visit(l, l->colour);
		return n;
	}
	static int visit_one(struct list *l, unsigned char c) { return l->colour == c; }
	int main(int n, char **v) { struct list l = {0, v[0], BLUE}; union either e = {n}; return walk_along_the_list(&l, &e, visit_one); }`

// functionsOf lists functions with the types inside them and their fields.
func functionsOf(t *testing.T, d *Info) (out []string) {
	t.Helper()
	named := map[string]dwarf.Type{}
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if at, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok && (e.Tag == dwarf.TagFormalParameter || e.Tag == dwarf.TagSubprogram || e.Tag == dwarf.TagVariable) {
			of, err := d.Type(at)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			out = append(out, fmt.Sprintf("%v %s: %v", e.Tag, name, of))
			named[of.String()] = of
		}
	}
	if p, ok := named["*union either"].(*dwarf.PtrType); ok {
		out = append(out, p.Type.(*dwarf.StructType).Defn())
	}
	return out
}

// Shared debug information is read as if each program had its own copy.
func TestSupplement(t *testing.T) {
	dwz := testenv.NeedProgram(t, "dwz")
	for _, flags := range []string{"-gdwarf-4", "-gdwarf-5", "-gdwarf-5 --dwarf-5"} {
		compiler, tool, _ := strings.Cut(flags, " ")
		dir := t.TempDir()
		var want []string
		for _, name := range []string{"a", "b"} {
			built := compile(t, common, "-O1", compiler, "-D"+name)
			d, err := readFile(t, built)
			if err != nil {
				t.Fatal(err)
			}
			want = functionsOf(t, d)
			testenv.CopyFile(t, built, filepath.Join(dir, name))
		}
		cmd := exec.Command(dwz, append(strings.Fields(tool), "-m", "shared", "a", "b")...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("dwz: %v\n%s", err, out)
		}
		open := func(name string) *elf.File {
			f, err := elf.Open(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}
		d, err := ReadShared(open("a"), open("shared"))
		if err != nil {
			t.Fatalf("%s: %v", flags, err)
		}
		if diff := cmp.Diff(want, functionsOf(t, d)); diff != "" || len(want) < 10 {
			t.Errorf("%s: -by itself +shared\n%s\n%q", flags, diff, want)
		}
	}
}

// Damaged files, with arbitrary bytes, yield an error or debug information.
func TestSupplementTakesAnything(t *testing.T) {
	b, err := os.ReadFile(compile(t, common, "-O1", "-gdwarf-4"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string][]byte{}
	for _, name := range []string{"info", "abbrev", "str", "line"} {
		if sections[name], err = unpack(Section(f, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"info", "abbrev"} {
		for i := 0; i < len(sections[name]); i++ {
			damaged := map[string][]byte{}
			for n, b := range sections {
				damaged[n] = append([]byte(nil), b...)
			}
			damaged[name][i] ^= 0xff
			whole := map[string][]byte{}
			for n, b := range sections {
				whole[n] = append([]byte(nil), b...)
			}
			if joined, err := join(whole, damaged); err == nil {
				Parse(joined)
			}
			if joined, err := join(damaged, whole); err == nil {
				Parse(joined)
			}
		}
	}
}
