package flight

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A foreign client reads as many columns as a file may have, and is refused more.
func TestManyColumns(t *testing.T) {
	c := foreign(t, serve(t, engine(t), Options{}))
	for columns, want := range map[int]string{2000: "", 100_000: "has more than 2000 columns"} {
		names := make([]string, columns)
		for i := range names {
			names[i] = fmt.Sprint("c", i)
		}
		const rows = 100
		text := strings.Join(names, ",") + "\n" + strings.Repeat(strings.TrimSuffix(strings.Repeat("text,", columns), ",")+"\n", rows)
		path := filepath.Join(t.TempDir(), "wide.csv")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		statement := "SELECT * FROM file('" + path + "')"
		if want != "" {
			if _, err := c.Execute(t.Context(), statement); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("executed: %v", err)
			}
			if _, err := c.Prepare(t.Context(), statement); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("prepared: %v", err)
			}
			continue
		}
		info, err := c.Execute(t.Context(), statement)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := records(t, c, info)
		if len(got) != rows || !slices.Equal(strings.Split(got[rows-1], "|"), append(slices.Repeat([]string{"text"}, columns), fmt.Sprint(rows+1))) {
			t.Errorf("%d rows, the last is %.200s", len(got), got[len(got)-1])
		}
	}
}
