package daemon

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"endoscope/server/fleet"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// agentFlags are the flags of a host of a fleet.
type agentFlags struct {
	url    string
	creds  string
	name   string
	labels list
}

// check rejects flags without --fleet, and labels that are not KEY=VALUE.
func (f *agentFlags) check() error {
	if f.url == "" && (f.creds != "" || f.name != "" || len(f.labels) > 0) {
		return mistakef("endoscoped --fleet nats://HOST:4222", "--creds, --fleet-name and --label need --fleet")
	}
	for _, l := range f.labels {
		if key, _, ok := strings.Cut(l, "="); !ok || key == "" {
			return mistakef("--label rack=r1", "--label takes KEY=VALUE, not %q", l)
		}
	}
	return nil
}

// agent connects the engine to the bus as a host of the fleet.
func (f *agentFlags) agent(engine wire.Engine, version string, log *slog.Logger) (*fleet.Agent, error) {
	h := bus.Host{Name: f.name, Labels: map[string]string{}, Version: version, Kernel: fleet.Kernel()}
	if h.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, mistakef("--fleet-name NAME", "the name of this host is not known: %v", err)
		}
		h.Name = name
	}
	for _, l := range f.labels {
		key, value, _ := strings.Cut(l, "=")
		h.Labels[key] = value
	}
	return fleet.New(fleet.Options{Host: h, Bus: bus.Address{URL: f.url, Creds: f.creds}, Engine: engine, Log: log})
}

// join runs the agent until stop is called.
func join(a *fleet.Agent, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Run(ctx); err != nil {
			log.Error("the host has left the fleet", "error", err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
