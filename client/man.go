package client

import (
	"bytes"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

func init() {
	addCommand(func(p *Program) *cobra.Command {
		return &cobra.Command{
			Use:                   "man [COMMAND]",
			DisableFlagsInUseLine: true,
			Short:                 "print the man page of endoscope, or of one of its commands",
			Example: `  endoscope man | man -l -
  endoscope man >/usr/local/share/man/man1/endoscope.1
  endoscope man top >/usr/local/share/man/man1/endoscope-top.1`,
			RunE: func(c *cobra.Command, args []string) error {
				of := c.Root()
				if len(args) > 0 {
					if err := oneOf("a command", commandNames(of)...)(c, args); err != nil {
						return err
					}
					of, _, _ = of.Find(args)
				}
				page, err := p.manPage(of)
				if err != nil {
					return err
				}
				return p.print(page)
			},
			ValidArgsFunction: func(c *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return beginning(commandNames(c.Root()), prefix), cobra.ShellCompDirectiveNoFileComp
			},
		}
	})
}

// manPage returns the man page of a command. Its date is that of the program's commit.
func (p *Program) manPage(c *cobra.Command) (string, error) {
	h := doc.GenManHeader{Section: "1", Source: "endoscope " + p.version(), Manual: "Endoscope"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if at, err := time.Parse(time.RFC3339, s.Value); err == nil && s.Key == "vcs.time" {
				h.Date = &at
			}
		}
	}
	c.DisableAutoGenTag = true
	c.Flags().VisitAll(func(f *pflag.Flag) { // the page shows defaults: here they are the placeholders of values
		if f.NoOptDefVal == "" {
			f.DefValue = f.Value.Type()
		}
	})
	var b bytes.Buffer
	err := doc.GenMan(c, &h, &b)
	return strings.NewReplacer("[=]", "", "[=false]", "").Replace(b.String()), err
}
