package client

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageWidth is the width of the text of --help, in cells.
const usageWidth = 80

// usageOf returns the text of --help of a command.
func usageOf(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s\n", strings.TrimPrefix(c.UseLine(), "endoscope endoscope"))
	if !c.HasParent() {
		b.WriteString("       endoscope COMMAND [flags]\n")
	}
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	fmt.Fprintf(&b, "\n%s\n", about)
	if c.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(&b, "  %-12s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	for _, group := range flagGroups {
		some := pflag.NewFlagSet("", pflag.ContinueOnError)
		some.SortFlags = false
		c.Flags().SortFlags = false
		c.Flags().VisitAll(func(f *pflag.Flag) {
			of := otherFlags
			if names := f.Annotations[groupOf]; names != nil {
				of = names[0]
			}
			if of == group && !f.Hidden {
				some.AddFlag(f)
			}
		})
		if some.HasFlags() {
			fmt.Fprintf(&b, "\n%s:\n%s", group, some.FlagUsagesWrapped(usageWidth))
		}
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	return strings.ReplaceAll(b.String(), "[=true|false]", "") // of flags without a value
}
