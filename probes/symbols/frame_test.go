package symbols

import (
	"encoding/hex"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// readelf interprets the unwind table independently: for every entry our first
// row must say what its first row says.
func TestRowsAgreeWithReadelf(t *testing.T) {
	for _, name := range []string{"redis-server", "ls", "as"} {
		t.Run(name, func(t *testing.T) {
			path := testenv.NeedProgram(t, name)
			m := openModule(t, path)
			rows, atEntry := 0, 0
			var start uint64
			var header []string
			for line := range strings.Lines(run(t, "readelf", "-wF", path)) {
				f := strings.Fields(line)
				switch {
				case strings.Contains(line, " FDE ") && strings.Contains(line, "pc="):
					_, pc, _ := strings.Cut(line, "pc=")
					pc, _, _ = strings.Cut(pc, "..")
					start, _ = strconv.ParseUint(pc, 16, 64)
				case strings.Contains(line, " CIE "):
					start = 0
				case len(f) > 1 && f[0] == "LOC":
					header = f
				case start != 0 && len(f) == len(header) && len(f) > 2:
					pc, err := strconv.ParseUint(f[0], 16, 64)
					if err != nil {
						continue
					}
					e := m.unwind.find(start)
					if e == nil || e.start != start {
						t.Fatalf("no entry at %#x", start)
					}
					row, ok := e.row(pc)
					want := f[1] == "rsp+8" && f[len(f)-1] == "c-8"
					if !ok || row.atEntry() != want {
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
		table, err := parseUnwind(append(data, entry...), 0x1000)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if table.exceptions != test.exceptions || len(table.entries) != test.entries {
			t.Errorf("%s: exceptions %v, %d entries", test.name, table.exceptions, len(table.entries))
		}
		if test.entries == 1 {
			e := table.entries[0]
			if want := 0x1000 + uint64(at) + 8 + 0x100; e.start != want || e.end != want+16 {
				t.Errorf("%s: entry at %#x, want %#x", test.name, e.start, want)
			}
			if row, ok := e.row(e.start); !ok || !row.atEntry() {
				t.Errorf("%s: row %+v", test.name, row)
			}
			if e.common.signalFrame != (test.name == "signal frame") {
				t.Errorf("%s: signal frame %v", test.name, e.common.signalFrame)
			}
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
