package client

import (
	"errors"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"endoscope/client/help"
	"endoscope/client/repl"
)

// helpCommand returns the command help [TOPIC].
func (p *Program) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "help [TOPIC]",
		DisableFlagsInUseLine: true,
		Short:                 "show the manual: its topics, or one topic, function or stream",
		Args:                  cobra.ArbitraryArgs,
		RunE:                  func(_ *cobra.Command, args []string) error { return p.manual(strings.Join(args, " ")) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return beginning(help.Names(), prefix), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// manual shows a topic, or the list of them if topic is "". It needs no engine.
func (p *Program) manual(topic string) error {
	signals, stop := watchSignals(func(error) {}) // while the pager runs, it handles them
	defer stop()
	err := repl.Manual(p.Stdout, topic, signals)
	if missing, ok := errors.AsType[*help.NotFoundError](err); ok {
		hint := missing.Hint
		if hint == "" {
			hint = "endoscope help lists the topics"
		}
		return &usageError{missing.Error(), hint}
	}
	if errors.Is(err, syscall.EPIPE) { // the reader, such as head(1), has closed the pipe
		return nil
	}
	return err
}
