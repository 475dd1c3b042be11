package debuginfo

import (
	"bufio"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// openSource reads the source positions of a program.
func openSource(t *testing.T, program string) (*Source, *elf.File) {
	t.Helper()
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	f, err := elf.NewFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenSource(f, file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, f
}

// call is a function, and the place in it.
type call struct{ function, at string }

// witnessed returns what addr2line says about addresses: the functions, and the places in
// them, innermost first.
func witnessed(t *testing.T, witness, program string, addrs []uint64) [][]call {
	t.Helper()
	witness = testenv.NeedProgram(t, witness)
	var in strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.Command(witness, "-i", "-f", "-a", "-e", program)
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]call
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(text, "0x") {
			all = append(all, nil)
			continue
		}
		lines.Scan()
		at, _, _ := strings.Cut(lines.Text(), " (discriminator")
		i := strings.LastIndexByte(at, ':')
		line, _ := strconv.Atoi(at[i+1:])
		file := ""
		if at[:i] != "??" {
			file = path.Clean(at[:i])
		}
		all[len(all)-1] = append(all[len(all)-1], call{text, fmt.Sprintf("%s:%d", file, line)})
	}
	if len(all) != len(addrs) {
		t.Fatalf("%d answers for %d addresses", len(all), len(addrs))
	}
	return all
}

// sourceWays are compilers and options by which the programs are compiled.
var sourceWays = []string{
	"gcc -O2 -g chain.c", "gcc -O2 -gdwarf-2 -gstrict-dwarf chain.c", "gcc -O2 -gdwarf-3 -gstrict-dwarf chain.c", "gcc -O2 -gdwarf-4 chain.c", "gcc -O3 -gdwarf-5 -flto chain.c",
	"gcc -O2 -g -ffunction-sections -Wl,--gc-sections chain.c", "gcc -O2 -g -gdwarf64 chain.c", "gcc -O2 -g -no-pie -Wl,--compress-debug-sections=zlib chain.c",
	"clang -O2 -g chain.c", "clang -O2 -gdwarf-4 chain.c", "clang -O2 -gline-tables-only chain.c",
	"g++ -O2 -g chain.cpp", "g++ -O2 -gdwarf-4 chain.cpp", "g++ -O1 -g -fdebug-types-section chain.cpp", "clang++ -O2 -g chain.cpp",
	"rustc -O -g -Cpanic=abort chain.rs",
}

// witnessOf returns the program that knows the places of a program: addr2line of binutils 2.40
// counts the files of DWARF 5 wrongly where the first one is not there twice, does not find the
// range lists of clang's, and errs in the names of lambdas and where they are.
func witnessOf(way string) string {
	if strings.Contains(way, "-flto") || strings.Contains(way, "++") || strings.Contains(way, "clang") || strings.Contains(way, "dwarf64") {
		return "llvm-addr2line"
	}
	return "addr2line"
}

// compileSource compiles a program as one of sourceWays says.
func compileSource(t *testing.T, way string) string {
	t.Helper()
	args := strings.Fields(way)
	source := args[len(args)-1]
	from, err := filepath.Abs("testdata/lines")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	args[len(args)-1] = filepath.Join(from, source)
	testenv.Output(t, args[0], append(args[1:], "-o", program)...)
	return program
}

// textOf returns every address of a program's code, at most limit, evenly spread.
func textOf(f *elf.File, limit int) (addrs []uint64) {
	s := f.Section(".text")
	step := max(1, s.Size/uint64(limit))
	for a := s.Addr; a < s.Addr+s.Size; a += step {
		addrs = append(addrs, a)
	}
	return addrs
}

// maxWitnessed is the number of addresses that are compared: a small program has fewer.
const maxWitnessed = 1 << 12

// The addresses of a line are where the line table goes to it.
func TestAddresses(t *testing.T) {
	program := compileSource(t, "gcc -O0 -g chain.c")
	s, f := openSource(t, program)
	decoded := testenv.Output(t, "objdump", "--dwarf=decodedline", program)
	for line := 1; line <= 45; line++ {
		want := map[uint64]bool{}
		last := ""
		for _, row := range strings.Split(decoded, "\n") {
			parts := strings.Fields(row) // file, line, address, view, statement
			if len(parts) < 4 || !strings.HasPrefix(parts[2], "0x") {
				continue
			}
			if at := parts[0] + ":" + parts[1]; at == fmt.Sprintf("chain.c:%d", line) && last != at && parts[len(parts)-1] == "x" {
				addr, err := strconv.ParseUint(parts[2], 0, 64)
				if err != nil {
					t.Fatal(err)
				}
				want[addr] = true
			}
			last = parts[0] + ":" + parts[1]
		}
		found, files, other, err := s.Addresses("lines/chain.c", line)
		if err != nil || len(files) != 1 || !strings.HasSuffix(files[0], "/testdata/lines/chain.c") {
			t.Fatalf("line %d: files %v, error %v", line, files, err)
		}
		got := map[uint64]bool{}
		for _, a := range found {
			got[a.Addr] = true
			if at, ok := s.Line(a.Addr); at.Line == 0 || !ok || f.Section(".text").Addr > a.Addr {
				t.Errorf("line %d has code at %#x, which is of line %+v", line, a.Addr, at)
			}
		}
		if !maps.Equal(got, want) || (len(want) == 0) != (other > line || line > 39) {
			t.Errorf("line %d: addresses %v, by objdump %v; next line %d", line, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)), other)
		}
	}
	for _, file := range []string{"hain.c", "other/chain.c", "chain.cpp", ""} {
		if found, files, _, err := s.Addresses(file, 20); len(found)+len(files) > 0 || err != nil {
			t.Errorf("file %q: %v, %v, error %v", file, found, files, err)
		}
	}
}
