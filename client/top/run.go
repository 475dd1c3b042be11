package top

import (
	"context"
	"errors"
	"io"

	tea "charm.land/bubbletea/v2"

	"endoscope/server/wire"
)

// framesPerSecond is how often the screen may change. The library wakes as often, whether it does
// or not, which belongs to the overhead of an engine in this process.
const framesPerSecond = 5

// Run shows the functions of a session's target on a terminal until the user quits. It takes at
// most a share of the target's CPU time.
func Run(ctx context.Context, s wire.Session, target string, limit float64, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	meter := NewMeter(s, limit)
	screen := tea.NewProgram(newModel(ctx, meter, target), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	measured := make(chan error, 1)
	go func() { measured <- meter.Run(ctx, func(s *Snapshot) { screen.Send(s) }) }()
	_, err := screen.Run()
	if errors.Is(err, tea.ErrProgramKilled) { // ctx is done: its cause is the reason
		err = context.Cause(ctx)
	}
	cancel()
	if ended := <-measured; err == nil && !errors.Is(ended, context.Canceled) {
		err = ended
	}
	return err
}
