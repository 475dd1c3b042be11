package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"endoscope/server/fleet"
	"endoscope/server/standing"
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
	// standing: the daemon keeps the standing queries of the fleet.
	standing bool
	// reduce: the daemon merges the results of the hosts of shards.
	reduce bool
	shards int
}

// defaultShards is the number of shards of a fleet whose reducers state none.
const defaultShards = 4

// check rejects flags without --fleet, and labels that are not KEY=VALUE. state is the
// directory of --state.
func (f *agentFlags) check(state string) error {
	switch {
	case f.url == "" && (f.creds != "" || f.name != "" || len(f.labels) > 0 || f.standing || f.reduce):
		return mistakef("endoscoped --fleet "+bus.URLForm, "--creds, --fleet-name, --label, --standing and --reduce need --fleet")
	case f.shards != defaultShards && !f.reduce:
		return mistakef("endoscoped --fleet "+bus.URLForm+" --reduce", "--shards needs --reduce")
	case f.shards < 1 || f.shards > bus.MostShards:
		return mistakef("--shards 4", "--shards must be 1 to %d", bus.MostShards)
	case f.reduce && (f.standing || len(f.labels) > 0):
		return mistakef("two programs, of which one has --reduce", "--reduce: a reducer is no host, and keeps no standing queries")
	case f.standing && state == "":
		return mistakef("--state /var/lib/endoscope", "--standing needs --state: results are kept there")
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

// Keeping is what a daemon needs that keeps standing queries.
type Keeping struct {
	Bus   bus.Address
	Trust bus.Trust
	Name  string // of the reducer
	Store *standing.Store
	Log   *slog.Logger
}

// keeper returns what the daemon needs to keep standing queries; nil: it keeps none.
func (f *agentFlags) keeper(p Program, state string, log *slog.Logger) (*Keeping, error) {
	if !f.standing {
		return nil, nil
	}
	if p.Keep == nil {
		return nil, errors.New("this program keeps no standing queries")
	}
	k := &Keeping{Log: log}
	var err error
	if k.Bus, k.Trust, k.Name, err = f.asReducer("--standing", state); err != nil {
		return nil, err
	}
	k.Store, err = standing.Open(filepath.Join(state, "standing"), nil)
	return k, err
}

// asReducer returns how a reducer reaches its bus, and its name, for what a flag says that it
// does.
func (f *agentFlags) asReducer(flag, state string) (at bus.Address, trust bus.Trust, name string, err error) {
	if at, trust, err = guard.Join(f.url, f.creds, state); err != nil {
		return at, nil, "", cannot("--creds", f.creds, err)
	}
	name = f.name
	if g, ok := trust.(*guard.Guard); ok {
		m := g.Member()
		if m.Role != fleettrust.Reducer {
			return at, nil, "", mistakef("endoscoped enroll NAME --role reducer", "%s: these are the credentials of %s %s, not of a reducer", flag, m.Role, m.Name)
		}
		name = m.Name
	}
	if name == "" {
		name, err = hostname()
	}
	return at, trust, name, err
}

// agents connects the engine to the bus: as a host of the fleet, unless the credentials are
// those of a reducer, and for statements about the standing queries that are kept.
func (f *agentFlags) agents(engine wire.Engine, k *Keeping, state, version string, log *slog.Logger) (all []*fleet.Agent, err error) {
	if k != nil {
		o := fleet.Options{Host: bus.Host{Name: bus.ReducerName(k.Name), Version: version}, Bus: k.Bus, Trust: k.Trust, Engine: engine, Log: log}
		a, err := fleet.New(o)
		if err != nil {
			return nil, err
		}
		if all = append(all, a); isReducer(k.Trust) {
			return all, nil
		}
	}
	a, err := f.agent(engine, state, version, log)
	return append(all, a), err
}

func isReducer(t bus.Trust) bool {
	g, ok := t.(*guard.Guard)
	return ok && g.Member().Role == fleettrust.Reducer
}

// hostname returns the name of a member that has none.
func hostname() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", mistakef("--fleet-name NAME", "the name of this host is not known: %v", err)
	}
	return name, nil
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
		case m.Role == fleettrust.Reducer:
			return nil, mistakef("--reduce, or --standing", "--creds %s: a reducer is no host: it merges results, or keeps standing queries", f.creds)
		case m.Role != fleettrust.Host:
			return nil, mistakef("endoscoped enroll NAME", "--creds %s: these are the credentials of %s %s, not of a host", f.creds, m.Role, m.Name)
		case f.name != "" || len(f.labels) > 0:
			return nil, mistakef("endoscoped enroll NAME --label KEY=VALUE", "--fleet-name and --label: the certificate in %s says name and labels", f.creds)
		}
		h.Name, h.Labels = m.Name, m.Labels
	}
	if h.Name == "" {
		if h.Name, err = hostname(); err != nil {
			return nil, err
		}
	}
	return fleet.New(fleet.Options{Host: h, Bus: at, Trust: trust, Engine: engine, Log: log})
}

// join runs a part of the fleet until stop is called.
func join(left string, run func(context.Context) error, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run(ctx); err != nil {
			log.Error(left, "error", err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
