package unwind

import (
	"debug/elf"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// readelf interprets the unwind table independently: for every entry our first
// row must equal its first row.
func TestRowsAgreeWithReadelf(t *testing.T) {
	for _, name := range []string{"redis-server", "ls", "as"} {
		t.Run(name, func(t *testing.T) {
			path := testenv.NeedProgram(t, name)
			table := tableOf(t, path)
			rows, atEntry := 0, 0
			var start uint64
			var header []string
			for line := range strings.Lines(testenv.Output(t, "readelf", "-wF", path)) {
				f := strings.Fields(line)
				switch {
				case strings.Contains(line, " FDE ") && strings.Contains(line, "pc="):
					_, pc, _ := strings.Cut(line, "pc=")
					pc, _, _ = strings.Cut(pc, "..")
					start, _ = strconv.ParseUint(pc, 16, 64)
				case strings.Contains(line, " CIE "), strings.Contains(line, "ZERO terminator"):
					start = 0
				case len(f) > 1 && f[0] == "LOC":
					header = f
				case start != 0 && len(f) == len(header) && len(f) > 2:
					pc, err := strconv.ParseUint(f[0], 16, 64)
					if err != nil {
						continue
					}
					e := table.Find(start)
					if e == nil || e.Start != start {
						t.Fatalf("no entry at %#x", start)
					}
					row, ok := e.Row(pc)
					want := f[1] == "rsp+8" && f[len(f)-1] == "c-8"
					if !ok || row.AtEntry() != want {
						t.Fatalf("row at %#x is %+v (%v), readelf says CFA %s, ra %s", pc, row, ok, f[1], f[len(f)-1])
					}
					rows++
					if want {
						atEntry++
					}
				}
			}
			if rows < 100 || atEntry == rows {
				t.Errorf("%d rows compared, %d at an entry", rows, atEntry)
			}
			t.Logf("%d rows compared, %d with the return address on top", rows, atEntry)
		})
	}
}

func TestUnwindTableLetters(t *testing.T) {
	cie := func(augmentation, data string) string {
		// version 1, augmentation, code 1, data -8, return register 16, data
		body := "00000000" + "01" + hex.EncodeToString([]byte(augmentation)) + "00" + "01" + "78" + "10" + data + "0c0708" + "9001"
		return size(body)
	}
	for _, test := range []struct {
		name       string
		table      string
		exceptions bool
		entries    int
	}{
		{"C", cie("zR", "01"+"1b"), false, 1},
		{"C++: personality and language-specific data", cie("zPLR", "07"+"9b"+"00000000"+"1b"+"1b"), true, 1},
		{"signal frame", cie("zRS", "01"+"1b"), false, 1},
		{"unknown letter", cie("zQR", "02"+"00"+"1b"), false, 0},
		{"augmentation longer than the entry", cie("zR", "7f"+"1b"), false, 0},
	} {
		data, err := hex.DecodeString(test.table)
		if err != nil {
			t.Fatal(err)
		}
		// An FDE of 16 bytes of code at its own address + 0x100.
		fde := "00000000" + "00010000" + "10000000" + "00"
		at := len(data)
		entry, _ := hex.DecodeString(size(fde))
		entry[4] = byte(at + 4) // distance to the CIE
		table, err := Parse(append(data, entry...), 0x1000)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if table.Exceptions != test.exceptions || len(table.Entries) != test.entries {
			t.Errorf("%s: exceptions %v, %d entries", test.name, table.Exceptions, len(table.Entries))
		}
		if test.entries == 1 {
			e := table.Entries[0]
			if want := 0x1000 + uint64(at) + 8 + 0x100; e.Start != want || e.End != want+16 {
				t.Errorf("%s: entry at %#x, want %#x", test.name, e.Start, want)
			}
			if row, ok := e.Row(e.Start); !ok || !row.AtEntry() {
				t.Errorf("%s: row %+v", test.name, row)
			}
			if e.IsSignal() != (test.name == "signal frame") {
				t.Errorf("%s: signal frame %v", test.name, e.IsSignal())
			}
		}
	}
}

// Call frame programs that compilers seldom write.
func TestUnwindRowInstructions(t *testing.T) {
	entry := Row{CFAReg: RegSP, CFAOffset: 8, CFAKnown: true, RA: -8, RAKnown: true}
	for _, test := range []struct {
		name, program string
		pc            uint64
		atEntry, ok   bool
	}{
		{"nothing", "", 0, true, true},
		{"nops", "0000", 0, true, true},
		{"push before the advance", "0e10", 0, false, true},
		{"push behind an advance of 1", "410e10", 0, true, true},
		{"push behind an advance of 1, there", "410e10", 1, false, true},
		{"advance by a byte", "02040e10", 3, true, true},
		{"advance by a byte, there", "02040e10", 4, false, true},
		{"advance by two bytes", "0300010e10", 0x100, false, true},
		{"advance by four bytes", "04000001000e10", 0xffff, true, true},
		{"another register", "0c0608", 0, false, true},
		{"another register, the same offset", "0d06", 0, false, true},
		{"remembered and restored", "0a0e200b", 0, true, true},
		{"restored only", "0b", 0, true, false},
		{"expression", "0f027708", 0, false, true},
		{"return address by an expression", "1010027708", 0, false, true},
		{"return address undefined", "0710", 0, false, true},
		{"return address elsewhere", "051002", 0, false, true},
		{"return address elsewhere, signed", "111002", 0, false, true},
		{"return address elsewhere, negative", "2f1001", 0, false, true},
		{"return address in a register", "091003", 0, false, true},
		{"return address restored", "d0", 0, false, true},
		{"another register saved", "860205030214060115067e", 0, true, true},
		{"signed definition", "12077f", 0, true, true},
		{"signed offset", "137f", 0, true, true},
		{"argument size", "2e10", 0, true, true},
		{"unknown instruction", "3d", 0, true, false},
		{"cut short", "0c07", 0, false, false},
	} {
		row := entry
		c := &common{codeAlign: 1, dataAlign: -8, returnReg: 16}
		ok := row.run(bytesOf(t, test.program), c, 0, test.pc)
		if ok != test.ok || ok && row.AtEntry() != test.atEntry {
			t.Errorf("%s: %+v, %v; want at entry %v, %v", test.name, row, ok, test.atEntry, test.ok)
		}
	}
}

// size puts the length before an entry, padded with nops.
func size(body string) string {
	for len(body)%8 != 0 {
		body += "00"
	}
	n := len(body) / 2
	return hex.EncodeToString([]byte{byte(n), byte(n >> 8), 0, 0}) + body
}

// tableOf returns the unwind table of a file.
func tableOf(t testing.TB, path string) *Table {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	section := f.Section(".eh_frame")
	data, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	table, err := Parse(data, section.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// bytesOf decodes hex.
func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
