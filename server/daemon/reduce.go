package daemon

import (
	"context"
	"errors"
	"log/slog"

	"endoscope/server/wire/bus"
)

// Reducing is what a daemon needs that merges the results of the hosts of shards.
type Reducing struct {
	Bus    bus.Address
	Trust  bus.Trust
	Name   string // of the reducer
	Shards int    // of the fleet
	Log    *slog.Logger
}

// reducer returns what the daemon needs to merge results.
func (f *agentFlags) reducer(state string, log *slog.Logger) (*Reducing, error) {
	r := &Reducing{Shards: f.shards, Log: log}
	var err error
	r.Bus, r.Trust, r.Name, err = f.asReducer("--reduce", state)
	return r, err
}

// reduce merges results until ctx is done, and returns the exit code. It executes nothing, so
// that there is no engine.
func (p Program) reduce(ctx context.Context, c *config, log *slog.Logger) int {
	if p.Reduce == nil {
		return p.refuse(errors.New("this program merges no results"))
	}
	r, err := c.agent.reducer(c.state, log)
	if err != nil {
		return p.refuse(err)
	}
	log.Info("reducing", "name", r.Name, "shards", r.Shards)
	notify("READY=1")
	if err := p.Reduce(ctx, *r); err != nil {
		log.Error("ended", "error", err)
		return exitFailed
	}
	return exitDone
}
