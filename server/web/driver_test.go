package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// browser is Debian's chromium, driven by testdata/driver.mjs.
type browser struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	node, chromium := testenv.NeedProgram(t, "node"), testenv.NeedProgram(t, "chromium")
	text, err := exec.Command(testenv.NeedProgram(t, "npm"), "root", "--global").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.TrimSpace(string(text))
	if _, err := os.Stat(filepath.Join(modules, "playwright-core")); err != nil {
		testenv.Skip(t, "needs npm install --global playwright-core")
	}
	cmd := exec.Command(node, "testdata/driver.mjs", modules, chromium)
	cmd.Stderr = os.Stderr
	b := &browser{}
	if b.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.out = bufio.NewScanner(out)
	b.out.Buffer(nil, 16<<20)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.in.Close()
		_ = cmd.Wait()
	})
	return b
}

// do runs the body of a function in the driver and stores its value in to.
func (b *browser) do(t *testing.T, to any, code string, args ...any) {
	t.Helper()
	if args == nil {
		args = []any{}
	}
	line, err := json.Marshal(map[string]any{"code": code, "args": args})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	if !b.out.Scan() {
		t.Fatalf("the driver has ended: %v", b.out.Err())
	}
	var answer struct {
		Value json.RawMessage
		Error string
	}
	if err := json.Unmarshal(b.out.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, b.out.Text())
	}
	if answer.Error != "" {
		t.Fatalf("%s\n%s", code, answer.Error)
	}
	if to != nil {
		if err := json.Unmarshal(answer.Value, to); err != nil {
			t.Fatal(err)
		}
	}
}

// text runs the body of a function that returns a text.
func (b *browser) text(t *testing.T, code string, args ...any) (s string) {
	t.Helper()
	b.do(t, &s, code, args...)
	return s
}

// desk is a served page with the engine behind it.
type desk struct {
	*Server
	addr   string
	engine wire.Engine
}

func newDesk(t *testing.T, pid int) *desk {
	t.Helper()
	engine, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{New(engine, Options{Session: wire.SessionOptions{PID: pid}, Target: "test"}), l.Addr().String(), engine}
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(l, false) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d.Stop(ctx)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// url returns a link to the page.
func (d *desk) url() string { return "http://" + d.addr + d.Link() }

// ask executes a statement in a session of its own and returns its rows as text.
func (d *desk) ask(t *testing.T, statement string) (rows []string) {
	t.Helper()
	s, err := d.engine.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Execute(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		ev, err := r.Next(t.Context())
		if err == io.EOF {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Batch == nil {
			continue
		}
		for i := range ev.Batch.Len() {
			var row []string
			for c := range ev.Batch.Cols {
				v := ev.Batch.Cols[c].Value(ev.Batch.Row(i))
				if v.S != "" {
					row = append(row, v.S)
				} else {
					row = append(row, fmt.Sprint(v.I))
				}
			}
			rows = append(rows, strings.Join(row, " "))
		}
		ev.Batch.Release()
	}
}

// running returns the number of running queries whose text contains what.
func (d *desk) running(t *testing.T, what string) int {
	t.Helper()
	n := 0
	for _, statement := range d.ask(t, "SELECT statement FROM sys.queries") {
		if strings.Contains(statement, what) && !strings.Contains(statement, "sys.") {
			n++
		}
	}
	return n
}

// named fails if a control of a page has no name for who does not see it.
func (b *browser) named(t *testing.T, page, with string) {
	t.Helper()
	unnamed := b.text(t, `
		const cdp = await pages[args[0]].context().newCDPSession(pages[args[0]]);
		const { nodes } = await cdp.send('Accessibility.getFullAXTree');
		const controls = ['button', 'textbox', 'combobox', 'option', 'tab', 'link', 'checkbox', 'grid', 'table', 'img', 'image', 'canvas', 'searchbox', 'tabpanel', 'tablist', 'listbox',
			'tree', 'treeitem', 'region', 'slider', 'toolbar', 'status', 'DisclosureTriangle', 'SvgRoot'];
		return nodes.filter((n) => !n.ignored && controls.includes(n.role.value) && !(n.name && n.name.value)).map((n) => n.role.value).join(' ')`, page)
	if unnamed != "" {
		t.Errorf("%s: controls without names: %s", with, unnamed)
	}
}

// none fails if a page has reported an error.
func (b *browser) none(t *testing.T, page string) {
	t.Helper()
	if trouble := b.text(t, "return pages[args[0]].trouble.join('\\n')", page); trouble != "" {
		t.Errorf("errors of the page:\n%s", trouble)
	}
}
