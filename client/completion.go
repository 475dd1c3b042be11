package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"endoscope/client/render"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

var shells = []string{"bash", "zsh", "fish"}

func init() {
	addCommand(func(p *Program) *cobra.Command {
		return &cobra.Command{
			Use:                   "completion bash|zsh|fish",
			DisableFlagsInUseLine: true,
			Short:                 "print the completion of a shell",
			Long: `Prints a script that makes a shell complete commands, flags, processes, formats
and topics of the manual.`,
			Example: `  source <(endoscope completion bash)
  endoscope completion zsh >"${fpath[1]}/_endoscope"
  endoscope completion fish >~/.config/fish/completions/endoscope.fish`,
			Args:      oneOf("a shell", shells...),
			ValidArgs: shells,
			RunE: func(c *cobra.Command, args []string) error {
				var b bytes.Buffer
				err := map[string]func() error{
					"bash": func() error { return c.Root().GenBashCompletionV2(&b, true) },
					"zsh":  func() error { return c.Root().GenZshCompletion(&b) },
					"fish": func() error { return c.Root().GenFishCompletion(&b, true) },
				}[args[0]]()
				if err != nil {
					return err
				}
				return p.print(b.String())
			},
		}
	})
}

// completeFlag makes a shell complete the value of a flag.
func (p *Program) completeFlag(c *cobra.Command, x flag) {
	if x.value == "" || x.complete == "file" { // files are the default
		return
	}
	_ = c.RegisterFlagCompletionFunc(x.long, func(c *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch x.complete {
		case "format":
			var names []string
			for _, f := range render.Formats {
				names = append(names, string(f))
			}
			return beginning(names, prefix), cobra.ShellCompDirectiveNoFileComp
		case "process", "pid":
			return p.processes(c.Context(), x.complete, prefix), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}) // the flag was defined just before
}

// beginning returns the names that begin with prefix.
func beginning(names []string, prefix string) (found []cobra.Completion) {
	for _, n := range names {
		if strings.HasPrefix(strings.ToLower(n), strings.ToLower(prefix)) {
			found = append(found, n)
		}
	}
	return found
}

// processes returns the names of the processes that run, or their numbers with the names.
func (p *Program) processes(ctx context.Context, kind, prefix string) (found []cobra.Completion) {
	engine, err := p.Open()
	if err != nil {
		return nil // a shell shows no errors
	}
	defer engine.Close()
	s, err := engine.NewSession(ctx, wire.Options{})
	if err != nil {
		return nil
	}
	defer s.Close()
	if kind == "process" {
		return beginning(s.Complete(ctx, "process", "", prefix), prefix)
	}
	rows, err := readAll(ctx, s, "SHOW PROCESSES")
	if err != nil {
		return nil
	}
	for _, row := range rows {
		if pid := fmt.Sprint(row[1].I); row[1].Type == types.Bigint && strings.HasPrefix(pid, prefix) {
			found = append(found, pid+"\t"+render.Escape(row[0].S))
		}
	}
	return found
}

// readAll returns the rows of a statement.
func readAll(ctx context.Context, s wire.Session, statement string) (rows [][]types.Value, err error) {
	res, err := s.Execute(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer res.Close()
	for {
		ev, err := res.Next(ctx)
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		if ev.Kind != wire.Rows {
			continue
		}
		for i := range ev.Batch.Len() {
			row := make([]types.Value, len(ev.Batch.Cols))
			for c := range ev.Batch.Cols {
				row[c] = ev.Batch.Cols[c].Value(ev.Batch.Row(i))
			}
			rows = append(rows, row)
		}
		ev.Batch.Release()
	}
}
