package client

import (
	"errors"
	"fmt"
	"syscall"

	"endoscope/client/help"
	"endoscope/client/render"
	"endoscope/client/repl"
)

// manual runs endoscope help [TOPIC]. It needs no engine.
func (p Program) manual(topic string) int {
	signals, stop := watchSignals(func(error) {}) // the pager has them
	defer stop()
	err := repl.Manual(p.Stdout, topic, signals)
	missing, ok := errors.AsType[*help.NotFoundError](err)
	switch {
	case ok:
		hint := missing.Hint
		if hint == "" {
			hint = "endoscope help lists the topics"
		}
		p.printUsage(&usageError{missing.Error(), hint})
		return exitUsage
	case err != nil && !errors.Is(err, syscall.EPIPE): // head(1) has read enough
		fmt.Fprintln(p.Stderr, render.Escape("error: "+err.Error()))
		return exitFailed
	}
	return exitDone
}
