package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// A fleet in one process answers as one host, and the footer says that all hosts did.
func TestFleetDemo(t *testing.T) {
	var out, errs bytes.Buffer
	p := program()
	p.Stdin, p.Stdout, p.Stderr = strings.NewReader(""), &out, &errs
	code := p.Run(t.Context(), []string{"fleet", "demo", "--hosts", "12", "--format", "csv", "-c",
		"SELECT COUNT(*), SUM(n) FROM series(10); SELECT host_label('program') AS program, COUNT(*) FROM series(3) GROUP BY host_label('program') ORDER BY program"})
	if want := "count(*),sum(n)\n120,660\n"; code != 0 || !strings.HasPrefix(strings.ToLower(out.String()), want) || !strings.Contains(out.String(), "1,18\n2,18\n") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	if n := strings.Count(errs.String(), "12 of 12 hosts"); n != 2 {
		t.Errorf("the coverage is in %d footers:\n%s", n, errs.String())
	}
}

// timed remembers when something was first written.
type timed struct {
	bytes.Buffer
	rows time.Time // when the first row after the header was
}

func (w *timed) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if w.rows.IsZero() && bytes.Count(w.Bytes(), []byte("\n")) > 1 {
		w.rows = time.Now()
	}
	return n, err
}

// 100 hosts observe functions of real programs. Totals grow from answer to answer, and are
// those of all hosts.
func TestFleetDemoObservesFunctions(t *testing.T) {
	testenv.NeedUprobes(t)
	seconds := 0
	testenv.Once(t, func() error { // the program may have no processor for some time
		seconds += 3
		var out timed
		var errs bytes.Buffer
		p := program()
		p.Stdin, p.Stdout, p.Stderr = strings.NewReader(""), &out, &errs
		began := time.Now()
		code := p.Run(t.Context(), []string{"fleet", "demo", "--hosts", "100", "--format", "csv", "-c",
			fmt.Sprintf("SELECT function_name, COUNT(*), QUANTILE(duration, 0.99) FROM function_duration GROUP BY function_name EMIT EVERY 1s FOR %ds", seconds)})
		if code != 0 || !strings.Contains(errs.String(), "100 of 100 hosts") {
			t.Fatalf("exit code %d\n%s", code, errs.String())
		}
		t.Logf("the first merged answer came %v after the start", out.rows.Sub(began).Round(time.Millisecond))
		rows, err := csv.NewReader(&out).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var counts []int
		for _, row := range rows[1:] {
			if row[0] == "process_job" {
				n, err := strconv.Atoi(row[1])
				if err != nil {
					t.Fatal(err)
				}
				counts = append(counts, n)
			}
		}
		if !slices.IsSorted(counts) {
			t.Errorf("totals decrease: %v", counts)
		}
		if len(slices.Compact(slices.Clone(counts))) < 2 || counts[0] < 100 {
			return fmt.Errorf("process_job was called %v times, seen by 100 hosts", counts)
		}
		return nil
	})
}
