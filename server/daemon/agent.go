package daemon

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"endoscope/server/fleet"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
	"endoscope/server/wire/guard"
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
		return mistakef("endoscoped --fleet "+bus.URLForm, "--creds, --fleet-name and --label need --fleet")
	}
	if f.url != "" {
		if err := bus.CheckURL(f.url); err != nil {
			return mistakef("--fleet "+bus.URLForm, "--fleet: %v", err)
		}
	}
	for _, l := range f.labels {
		if key, _, ok := strings.Cut(l, "="); !ok || key == "" {
			return mistakef("--label rack=r1", "--label takes KEY=VALUE, not %q", l)
		}
	}
	return nil
}

// agent connects the engine to the bus as a host of the fleet. The name and the labels of an
// enrolled host are those of its certificate.
func (f *agentFlags) agent(engine wire.Engine, state, version string, log *slog.Logger) (*fleet.Agent, error) {
	at, trust, err := guard.Join(f.url, f.creds, state)
	if err != nil {
		return nil, cannot("--creds", f.creds, err)
	}
	h := bus.Host{Name: f.name, Labels: map[string]string{}, Version: version, Kernel: fleet.Kernel()}
	for _, l := range f.labels {
		key, value, _ := strings.Cut(l, "=")
		h.Labels[key] = value
	}
	if g, ok := trust.(*guard.Guard); ok {
		m := g.Member()
		switch {
		case m.Role != fleettrust.Host:
			return nil, mistakef("endoscoped enroll NAME", "--creds %s: these are the credentials of %s %s, not of a host", f.creds, m.Role, m.Name)
		case f.name != "" || len(f.labels) > 0:
			return nil, mistakef("endoscoped enroll NAME --label KEY=VALUE", "--fleet-name and --label: the certificate in %s says name and labels", f.creds)
		}
		h.Name, h.Labels = m.Name, m.Labels
	}
	if h.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, mistakef("--fleet-name NAME", "the name of this host is not known: %v", err)
		}
		h.Name = name
	}
	return fleet.New(fleet.Options{Host: h, Bus: at, Trust: trust, Engine: engine, Log: log})
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
