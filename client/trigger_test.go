package client

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"endoscope/probes/testenv"
)

// Messages of triggers appear above the prompt. The line being edited and its cursor
// stay.
func TestNotesAppearAboveThePrompt(t *testing.T) {
	x := newTerminal(t)
	x.expect("endoscope> ")
	x.send("CREATE TRIGGER slow ON silent WHEN duration > 5ms BEGIN NOTIFY 'disk full' END;\r")
	x.expect("trigger created")
	x.expect("endoscope> ")
	x.send("SELECT *\r")
	x.send("FROM cals\x1b[D") // the cursor is before the s
	x.expect("cals")

	// The trigger's rows and notifications, with control characters escaped.
	x.step()
	x.expect(`slow #1 SAMPLE(cpu_usage, 100ms): {"percent_busy":70.5}` + "\r\n")
	x.step()
	x.expect(`slow: disk \x1b[2J full` + "\r\n")
	x.expect("cals")
	x.step()
	x.expect("slow: again\r\n")
	x.expect("cals")
	want := `
trigger created
slow #1 SAMPLE(cpu_usage, 100ms): {"percent_busy":70.5}
slow: disk \x1b[2J full
slow: again
endoscope> SELECT *
      ...> FROM cals`
	testenv.UntilNil(t, "the screen has it", func() error {
		x.drain()
		if got := x.screen(); !strings.Contains(got, want) {
			return fmt.Errorf("the screen is\n%s\nwithout\n%s", got, want)
		}
		return nil
	})

	// Editing continues at the same position.
	x.send("l\x05;\r")
	x.expect(" function_name  | duration")
	x.expect("3 rows in 1.23s, complete")
	x.expect("endoscope> ")

	// While a statement runs, the messages appear between its rows.
	x.send("CREATE TRIGGER slow ON silent WHEN duration > 5ms BEGIN NOTIFY 'disk full' END;\r")
	x.expect("trigger created")
	x.send("SELECT * FROM endless;\r")
	x.expect(" 1\r\n")
	testenv.Until(t, "the trigger notifies", func() bool {
		x.step()
		x.drain()
		return strings.Contains(x.seen.String()[x.from:], "slow: again")
	})
	x.expect("slow: again")
	x.send(ctrlC)
	x.expect("complete")
	x.expect("endoscope> ")
	x.send(ctrlD)
	x.exit(0)
}

// step lets the trigger take its next step.
func (x *terminal) step() {
	x.t.Helper()
	if err := x.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		x.t.Fatal(err)
	}
}

// drain reads what has been drawn.
func (x *terminal) drain() {
	for {
		select {
		case out := <-x.output:
			x.seen.WriteString(out)
		default:
			return
		}
	}
}

// screen returns what a terminal of 80 by 24 cells shows after the output so far. It
// implements only what the command uses.
func (x *terminal) screen() string {
	const rows, columns = 24, 80
	grid := make([][]rune, rows)
	clearRow := func(r, from int) {
		for c := from; c < columns; c++ {
			grid[r][c] = ' '
		}
	}
	for r := range grid {
		grid[r] = make([]rune, columns)
		clearRow(r, 0)
	}
	row, col := 0, 0
	down := func() {
		if row++; row == rows {
			row--
			first := grid[0]
			copy(grid, grid[1:])
			grid[rows-1] = first
			clearRow(rows-1, 0)
		}
	}
	in := []rune(x.seen.String())
	for i := 0; i < len(in); i++ {
		switch c := in[i]; {
		case c == '\r':
			col = 0
		case c == '\n':
			down()
		case c == '\b':
			col = max(0, col-1)
		case c == 0x1b && i+1 < len(in) && in[i+1] == 'D':
			down()
			i++
		case c == 0x1b && i+1 < len(in) && in[i+1] == '[':
			n := 0
			for i += 2; i < len(in) && !(in[i] >= '@' && in[i] <= '~'); i++ {
				if in[i] >= '0' && in[i] <= '9' {
					n = n*10 + int(in[i]-'0')
				}
			}
			if i == len(in) {
				break
			}
			switch steps := max(n, 1); in[i] {
			case 'A':
				row = max(0, row-steps)
			case 'B':
				row = min(rows-1, row+steps)
			case 'C':
				col = min(columns-1, col+steps)
			case 'D':
				col = max(0, col-steps)
			case 'J':
				clearRow(row, col)
				for r := row + 1; r < rows; r++ {
					clearRow(r, 0)
				}
			case 'K':
				if n == 1 { // cursor left
					for c := range col {
						grid[row][c] = ' '
					}
				} else {
					clearRow(row, col)
				}
			}
		case c == 0x1b:
			i++
		case c >= ' ':
			if col == columns {
				col = 0
				down()
			}
			grid[row][col] = c
			col++
		}
	}
	var b strings.Builder
	for _, r := range grid {
		b.WriteString(strings.TrimRight(string(r), " ") + "\n")
	}
	return b.String()
}
