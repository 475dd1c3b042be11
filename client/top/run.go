package top

import (
	"context"
	"errors"
	"io"

	tea "charm.land/bubbletea/v2"

	"endoscope/server/wire"
)

// Run shows the functions of a session's target on a terminal until the user quits.
func Run(ctx context.Context, s wire.Session, target string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	meter, err := NewMeter(ctx, s)
	if err != nil {
		return err
	}
	screen := tea.NewProgram(newModel(ctx, meter, target), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	measured := make(chan error, 1)
	go func() { measured <- meter.Run(ctx, func(s *Snapshot) { screen.Send(s) }) }()
	_, err = screen.Run()
	if errors.Is(err, tea.ErrProgramKilled) { // ctx is done: its cause is the reason
		err = context.Cause(ctx)
	}
	cancel()
	if ended := <-measured; err == nil && !errors.Is(ended, context.Canceled) {
		err = ended
	}
	return err
}
