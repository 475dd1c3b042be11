package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"endoscope/client/render"
	"endoscope/client/runner"
	"endoscope/server/wire"
)

// checks is the statement that examines an engine's machine.
const checks = "SHOW CHECKS"

func init() {
	addCommand(func(p *Program) *cobra.Command {
		c := &cobra.Command{
			Use:   "doctor [-p PID | --process NAME | --exe PATH] [--json | --format FORMAT]",
			Short: "say which streams work here, and what to do about the others",
			Long: `Examines the kernel and the rights of this process, and a program if one is named, and
tries each stream on a program of its own that does not run. Says for each what was found
and the one thing to do if that is not enough. Exit code: 0 if all streams work, 1 if some
do not. With --connect the engine there examines its machine.`,
			Example: `  endoscope doctor
  endoscope doctor -p 4711
  endoscope doctor --json | jq '.[] | select(.verdict != "ok")'`,
			Args: noArguments,
		}
		f := p.define(c, targetFlags, connectionFlags)
		asJSON := c.Flags().Bool("json", false, "print the checks as an array of objects")
		format := c.Flags().String("format", "", "json: the same")
		c.RunE = func(c *cobra.Command, _ []string) error {
			if *format != "" && *format != string(render.JSON) {
				return usagef(`endoscope --format csv -c "`+checks+`" has the other formats`, "doctor has a text and json, not %q", *format)
			}
			if err := f.check(); err != nil {
				return err
			}
			return p.doctor(c.Context(), f, *asJSON || *format != "")
		}
		return c
	})
}

// check is a row of the statement.
type check struct {
	Host    string `json:"host,omitempty"` // of several engines
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	Found   string `json:"found"`
	Remedy  string `json:"remedy"`
}

// doctor shows the checks. It fails if a stream does not work.
func (p *Program) doctor(ctx context.Context, f *flags, asJSON bool) error {
	var rows bytes.Buffer
	err := p.session(ctx, f, wire.Options{}, func(ctx context.Context, s wire.Session, signals *runner.Signals) error {
		r := runner.Runner{Session: s, Signals: signals, Out: runner.NewOutput(&rows, render.JSON), Err: io.Discard}
		return r.Statement(ctx, checks)
	})
	if err != nil {
		return err
	}
	var all []check
	if err := json.Unmarshal(rows.Bytes(), &all); err != nil {
		return fmt.Errorf("the checks cannot be read: %w", err)
	}
	text := checksText(all)
	if asJSON {
		text = rows.String()
	}
	if err := p.print(text); err != nil {
		return err
	}
	streams, failed := 0, 0
	for _, c := range all {
		if c.Kind == "stream" {
			streams++
			if c.Verdict != "ok" {
				failed++
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d streams do not work here", failed, streams)
	}
	return nil
}

// checksText returns the checks for people: a paragraph for each kind, and what to do below
// each that is not in order. Streams with the same error are shown together.
func checksText(all []check) string {
	var b strings.Builder
	heading := ""
	for len(all) > 0 {
		c := all[0]
		names := []string{c.Name}
		all = all[1:]
		for len(all) > 0 && c.Kind == "stream" && all[0].Kind == c.Kind && all[0].Host == c.Host && all[0].Verdict == c.Verdict &&
			(c.Verdict == "ok" || all[0].Remedy == c.Remedy) {
			names = append(names, all[0].Name)
			all = all[1:]
		}
		if h := strings.TrimSpace(c.Host + " " + c.Kind); h != heading {
			heading = h
			fmt.Fprintf(&b, "%s\n", render.Escape(h))
		}
		if c.Kind == "stream" {
			fmt.Fprintf(&b, "  %-7s %s\n", c.Verdict, strings.Join(names, ", "))
		} else {
			fmt.Fprintf(&b, "  %-7s %-19s %s\n", c.Verdict, c.Name, render.Escape(c.Found))
		}
		if c.Verdict != "ok" {
			if c.Kind == "stream" {
				fmt.Fprintf(&b, "          %s\n", render.Escape(c.Found))
			}
			if c.Remedy != "" {
				fmt.Fprintf(&b, "          -> %s\n", render.Escape(c.Remedy))
			}
		}
	}
	return b.String()
}
