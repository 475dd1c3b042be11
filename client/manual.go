package client

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"endoscope/client/help"
	"endoscope/client/render"
	"endoscope/client/runner"
)

// manual runs endoscope help [TOPIC]. It needs no engine.
func (p Program) manual(topic string) int {
	var b strings.Builder
	err := help.Show(&b, topic, runner.NewOutput(p.Stdout, "").Prose())
	if missing, ok := errors.AsType[*help.NotFoundError](err); ok {
		hint := missing.Hint
		if hint == "" {
			hint = "endoscope help lists the topics"
		}
		p.printUsage(&usageError{missing.Error(), hint})
		return exitUsage
	}
	signals, stop := watchSignals(func(error) {}) // only the pager has them
	defer stop()
	if err == nil {
		err = runner.Page(p.Stdout, b.String(), signals)
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) { // head(1) has read enough
		fmt.Fprintln(p.Stderr, render.Escape("error: "+err.Error()))
		return exitFailed
	}
	return exitDone
}
