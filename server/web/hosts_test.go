package web

import (
	"context"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"endoscope/client/fleet/root"
	"endoscope/probes/testenv"
	"endoscope/server"
	agent "endoscope/server/fleet"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// ofNobody is an engine whose sessions are of no user.
type ofNobody struct{ wire.Engine }

func (e ofNobody) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	o.User = nil
	return e.Engine.NewSession(ctx, o)
}

// newFleetDesk serves a page of a fleet: two hosts, of which end ends the second, and one that
// was never heard.
func newFleetDesk(t *testing.T) (d *desk, end func()) {
	t.Helper()
	n, err := natsd.NewServer(&natsd.Options{ServerName: "test", DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(func() {
		n.Shutdown()
		n.WaitForShutdown()
	})
	testenv.Until(t, "the bus runs", func() bool { return n.ReadyForConnections(time.Second) })
	at := bus.Address{Server: n}
	nc, err := at.Connect("test", false)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := bus.Prepare(t.Context(), nc, 0); err != nil {
		t.Fatal(err)
	}
	if err := bus.DescribeHost(t.Context(), nc, "db3", bus.Encode(bus.Host{Name: "db3"})); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"db1", "db2"} {
		e, err := server.New(server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := agent.New(agent.Options{Host: bus.Host{Name: name}, Bus: at, Engine: ofNobody{e}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			_ = a.Run(ctx)
			close(ended)
		}()
		end = func() {
			cancel()
			<-ended
		}
		t.Cleanup(func() { _ = e.Close() })
		t.Cleanup(end)
	}
	engine, err := root.Dial(t.Context(), root.Options{Bus: at})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Await(t.Context(), 2, 0); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d = &desk{New(engine, Options{Target: "a fleet"}), l.Addr().String(), engine}
	served := make(chan error, 1)
	go func() { served <- d.Serve(l, false) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d.Stop(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = engine.Close()
	})
	return d, end
}

// Each result of a fleet says which hosts have answered, which are late, and which are missing.
func TestPageShowsHosts(t *testing.T) {
	testenv.Long(t)
	b := newBrowser(t)
	d, end := newFleetDesk(t)
	const statement = "SELECT COUNT(*) AS n FROM SAMPLE(memory_usage, 100ms) EMIT EVERY 500ms"
	// wait waits until the table of hosts has these rows.
	wait := func(page string, rows ...string) {
		t.Helper()
		b.do(t, nil, `
			const p = pages[args[0]];
			await p.waitForFunction((rows) => JSON.stringify([...document.querySelectorAll('#results > section:not([hidden]) .hosts tbody tr')].map((r) => [...r.children].slice(0, 2).map((c) => c.textContent).join(' ')).sort()) === JSON.stringify(rows), args[1])`, page, rows)
	}
	b.do(t, nil, "const p = await enter('hosts', args[0]); await run(p, args[1])", d.url(), statement)
	wait("hosts", "db1 answered", "db2 answered", "db3 missing")
	var got struct {
		Summary string
		Reasons []string
	}
	read := `
		const p = pages.hosts;
		await p.locator('.hosts').evaluate((e) => { e.open = true; });
		return { Summary: await p.textContent('.hosts summary'), Reasons: await p.locator('.hosts tbody td:nth-child(3)').allTextContents() }`
	b.do(t, &got, read)
	if got.Summary != "Hosts: 2 of 3 answered, 1 missing" || !slices.Equal(got.Reasons, []string{"it was never heard", "", ""}) {
		t.Errorf("%+v", got)
	}
	end()
	wait("hosts", "db1 answered", "db2 late", "db3 missing")
	b.do(t, &got, read)
	if got.Summary != "Hosts: 1 of 3 answered, 1 missing, 1 late" || len(got.Reasons) != 3 || !strings.HasPrefix(got.Reasons[1], "silent since ") {
		t.Errorf("%+v", got)
	}
	b.named(t, "hosts", "hosts")
	b.none(t, "hosts")
	if folder := os.Getenv("ENDOSCOPE_SCREENSHOTS"); folder != "" {
		b.do(t, nil, `
			for (const scheme of ['light', 'dark']) for (const width of [1280, 390]) {
				await pages.hosts.emulateMedia({ colorScheme: scheme });
				await pages.hosts.setViewportSize({ width, height: 844 });
				await pages.hosts.screenshot({ path: args[0] + '/hosts-' + width + '-' + scheme + '.png', fullPage: true });
			}`, folder)
	}
	b.do(t, nil, "await pages.hosts.context().close()")
}
