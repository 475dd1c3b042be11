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
	signals, stop := watchSignals(func(error) {}) // while the pager runs, it handles them
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
	case err != nil && !errors.Is(err, syscall.EPIPE): // the reader, such as head(1), has closed the pipe
		fmt.Fprintln(p.Stderr, render.Escape("error: "+err.Error()))
		return exitFailed
	}
	return exitDone
}
