package daemon

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"endoscope/probes/testenv"
)

// arrowRS uses the Flight SQL client of arrow-rs and tonic, packaged for Node. It
// prints the results of statements, or their errors, as lines of JSON.
const arrowRS = `
const { createFlightSqlClient } = require('@lakehouse-rs/flight-sql-client');
const { tableFromIPC } = require('apache-arrow');
const [host, port, token, ...statements] = process.argv.slice(1);
(async () => {
	const plain = (v) => typeof v === 'bigint' ? Number(v) : v;
	const say = (x) => console.log(JSON.stringify(x));
	let client;
	try {
		client = await createFlightSqlClient({ host, port: Number(port), tls: false, token: token || undefined, headers: [] });
	} catch (e) {
		return say({ error: String(e.message) });
	}
	for (const s of statements) {
		try {
			const t = tableFromIPC(s === 'TABLES' ? await client.getTables({ tableNameFilterPattern: 'cpu_us%', includeSchema: true }) : await client.query(s));
			say({ columns: t.schema.fields.map((f) => f.name), rows: t.toArray().slice(0, 5).map((r) => Object.values(r.toJSON()).map((v) => v instanceof Uint8Array ? v.length : plain(v))), n: t.numRows });
		} catch (e) {
			say({ error: String(e.message) });
		}
	}
})();`

// said is one line of its output.
type said struct {
	Columns []string
	Rows    [][]any
	N       int
	Error   string
}

// askArrowRS runs statements with arrowRS at an address.
func askArrowRS(t *testing.T, modules, addr, token string, statements ...string) (out []said) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", append([]string{"-e", arrowRS, "--", host, port, token}, statements...)...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for line := range strings.Lines(string(text)) {
		var s said
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("it says %s", text)
		}
		out = append(out, s)
	}
	return out
}

// tunnel encrypts connections to a daemon, since the Node package of arrow-rs' client
// has no certificate authorities. It returns the address to connect to.
func tunnel(t *testing.T, to string, conf *tls.Config) (addr string) {
	t.Helper()
	conf = conf.Clone()
	conf.NextProtos, conf.ServerName = []string{"h2"}, "localhost"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := tls.Dial("tcp", to, conf)
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				all.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].Close()
					_ = way[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// An independent client, which shares no code with this project or arrow-go, gets its
// results over TLS with a token, and nothing without.
func TestArrowRS(t *testing.T) {
	testenv.NeedProgram(t, "node")
	text, err := exec.Command(testenv.NeedProgram(t, "npm"), "root", "--global").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.TrimSpace(string(text))
	for _, name := range []string{"@lakehouse-rs/flight-sql-client", "apache-arrow"} {
		if _, err := os.Stat(filepath.Join(modules, name)); err != nil {
			testenv.Skip(t, "needs npm install --global %s", name)
		}
	}
	dir, stranger := configured(t, twoUsers), configured(t, twoUsers)
	token := command(t, "token", "add", "alice", "--config", dir)
	d := begin(t, "--listen", "127.0.0.1:0", "--config", dir)
	addr := d.addrs[0].String()
	through := tunnel(t, addr, trusting(t, dir, ""))

	const five = "SELECT n, 'row ' || n::VARCHAR AS s, n * 0.5 AS half, CASE WHEN n > 2 THEN n END AS big FROM series(5)"
	got := askArrowRS(t, modules, through, token, five, "SELECT COUNT(*) AS n FROM series(200000)", "SELECT nope FROM series(1)", "TABLES",
		"SELECT n, 'x' || (n % 7)::VARCHAR AS s FROM series(100000)")
	if len(got) != 5 {
		t.Fatalf("it says %+v", got)
	}
	want := `{"Columns":["n","s","half","big"],"Rows":[[1,"row 1",0.5,null],[2,"row 2",1,null],[3,"row 3",1.5,3],[4,"row 4",2,4],[5,"row 5",2.5,5]],"N":5,"Error":""}`
	if text, _ := json.Marshal(got[0]); string(text) != want {
		t.Errorf("%s\n%s\nwant %s", five, text, want)
	}
	if got[1].N != 1 || got[1].Rows[0][0] != 200000.0 {
		t.Errorf("the count is %+v", got[1])
	}
	if got[2].Error == "" { // the client does not report the reason
		t.Errorf("a wrong statement: %+v", got[2])
	}
	if got[3].N != 1 || got[3].Rows[0][2] != "cpu_usage" {
		t.Errorf("the tables are %+v", got[3])
	}
	if got[4].N != 100_000 {
		t.Errorf("%d rows of 100,000: %s", got[4].N, got[4].Error)
	}
	for name, c := range map[string]struct{ addr, token, want string }{
		"wrong token":         {through, "endoscope_x", "the token is not valid"},
		"neither":             {through, "", "a client certificate or a token is required"},
		"another CA's server": {tunnel(t, addr, trusting(t, stranger, "")), token, ""},
		"plaintext":           {addr, token, ""},
	} {
		got := askArrowRS(t, modules, c.addr, c.token, five)
		if len(got) != 1 || got[0].Error == "" || got[0].N > 0 || !strings.Contains(d.log.String(), c.want) {
			t.Errorf("%s: %+v\n%s", name, got, d.log)
		}
	}
	fc, ctx := client(t, addr, trusting(t, dir, ""), token)
	if n, err := rows(ctx, fc, five); n != 5 {
		t.Errorf("the daemon does not answer afterwards: %v", err)
	}
}
