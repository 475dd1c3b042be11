package daemon

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"endoscope/probes/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// daemon is a daemon in the test's own process.
type daemon struct {
	t     testing.TB
	addrs []net.Addr
	log   *testenv.Buffer
	stop  func() int // ends it and returns its exit code; may be called repeatedly
}

// begin runs the daemon until the test ends.
func begin(t testing.TB, args ...string) *daemon {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, over := make(chan []net.Addr, 1), make(chan int, 1)
	d := &daemon{t: t, log: &testenv.Buffer{}}
	go func() {
		over <- Program{Stderr: d.log, Stdout: io.Discard, Ready: func(a []net.Addr) { ready <- a }}.Run(ctx, args)
	}()
	d.stop = sync.OnceValue(func() int {
		cancel()
		return <-over
	})
	t.Cleanup(func() { d.stop() })
	select {
	case d.addrs = <-ready:
	case code := <-over:
		over <- code
		t.Fatalf("the daemon ended with %d: %s", code, d.log)
	}
	return d
}

// command runs one of the daemon's commands and returns its output.
func command(t testing.TB, args ...string) string {
	t.Helper()
	var out, msg bytes.Buffer
	if code := (Program{Stdout: &out, Stderr: &msg}).Run(t.Context(), args); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, msg.String())
	}
	return strings.TrimSpace(out.String())
}

// configured returns a directory with certificates for localhost, and users.
func configured(t testing.TB, users string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "conf")
	command(t, "init", "--config", dir, "--host", "localhost", "--host", "127.0.0.1", "--client", "alice")
	if err := os.WriteFile(filepath.Join(dir, "users"), []byte(users), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// trusting returns the TLS configuration of a client that trusts a directory's CA;
// with user != "" it has that user's certificate.
func trusting(t testing.TB, dir, user string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	c.RootCAs.AppendCertsFromPEM(text)
	if user != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "clients", user+".pem"), filepath.Join(dir, "clients", user+".key"))
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// client connects as a foreign Flight SQL client does.
func client(t testing.TB, addr string, conf *tls.Config, token string) (*flightsql.Client, context.Context) {
	t.Helper()
	creds := insecure.NewCredentials()
	if conf != nil {
		creds = credentials.NewTLS(conf)
	}
	c, err := flightsql.NewClient(addr, nil, nil, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return c, ctx
}

// rows runs a statement to its end and returns its number of rows.
func rows(ctx context.Context, c *flightsql.Client, statement string) (n int64, err error) {
	info, err := c.Execute(ctx, statement)
	if err != nil {
		return 0, err
	}
	r, err := c.DoGet(ctx, info.Endpoint[0].Ticket)
	if err != nil {
		return 0, err
	}
	defer r.Release()
	for r.Next() {
		n += r.RecordBatch().NumRows()
	}
	return n, r.Err()
}

const twoUsers = "user alice\n  role read\nuser bob\n  role admin\n"

func TestWhoMayConnect(t *testing.T) {
	dir, stranger := configured(t, twoUsers), configured(t, twoUsers)
	token := command(t, "token", "add", "alice", "--config", dir)
	revoked := command(t, "token", "add", "--config", dir, "bob")
	d := begin(t, "--listen", "127.0.0.1:0", "--config", dir, "--audit", filepath.Join(dir, "audit"))
	addr := d.addrs[0].String()
	list := strings.Split(command(t, "token", "list", "--config", dir), "\n")
	command(t, "token", "revoke", strings.Fields(list[2])[0], "--config", dir)

	const five = "SELECT * FROM series(5)"
	for _, c := range []struct {
		name  string
		conf  *tls.Config
		token string
		code  codes.Code
		msg   string
	}{
		{"certificate", trusting(t, dir, "alice"), "", codes.OK, ""},
		{"token", trusting(t, dir, ""), token, codes.OK, ""},
		{"wrong token", trusting(t, dir, ""), "endoscope_x", codes.Unauthenticated, "the token is not valid"},
		{"revoked token", trusting(t, dir, ""), revoked, codes.Unauthenticated, "the token is not valid"},
		{"neither", trusting(t, dir, ""), "", codes.Unauthenticated, "a client certificate or a token is required"},
		{"certificate of another CA", func() *tls.Config {
			conf := trusting(t, dir, "")
			pair := trusting(t, stranger, "alice").Certificates[0]
			conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			return conf
		}(), token, codes.Unavailable, ""},
		{"server not trusted", trusting(t, stranger, "alice"), token, codes.Unavailable, ""},
		{"plaintext", nil, token, codes.Unavailable, ""},
	} {
		fc, ctx := client(t, addr, c.conf, c.token)
		n, err := rows(ctx, fc, five)
		if st := status.Convert(err); st.Code() != c.code || !strings.Contains(st.Message(), c.msg) || c.code == codes.OK && n != 5 {
			t.Errorf("%s: %d rows, %v", c.name, n, err)
		}
	}
	// No call of an unidentified client is answered.
	fc, ctx := client(t, addr, trusting(t, dir, ""), "")
	if _, err := fc.GetTables(ctx, &flightsql.GetTablesOpts{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("tables for anybody: %v", err)
	}
	if _, err := fc.Prepare(ctx, five); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a prepared statement for anybody: %v", err)
	}
	// A role applies to every client.
	fc, ctx = client(t, addr, trusting(t, dir, ""), token)
	if _, err := rows(ctx, fc, "SELECT * FROM function_start WHERE pid = 1"); err == nil || !strings.Contains(err.Error(), "needs the role trace") {
		t.Errorf("tracing by a reader: %v", err)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("exit code %d: %s", code, d.log)
	}
	text, err := os.ReadFile(filepath.Join(dir, "audit"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var r struct{ Msg, User, Via, Peer, Statement string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.User != "alice" || r.Via == "" || !strings.HasPrefix(r.Peer, "127.0.0.1:") {
			t.Errorf("a record: %s", line)
		}
		seen[r.Msg]++
	}
	if seen["connected"] != 3 || seen["disconnected"] != 3 || seen["armed"] != 2 || seen["ended"] != 2 || seen["refused"] != 1 {
		t.Errorf("on record: %v", seen)
	}
}

// The daemon does not listen unencrypted on an address that others can reach, unless
// it is told to.
func TestPlaintextIsRefused(t *testing.T) {
	var msg testenv.Buffer
	code := Program{Stderr: &msg}.Run(t.Context(), []string{"--listen", "0.0.0.0:0", "--config", t.TempDir()})
	if code != exitFailed || !strings.Contains(msg.String(), "can be reached by other machines, and there are no certificates") {
		t.Errorf("exit code %d: %s", code, msg.String())
	}
	d := begin(t, "--listen", "0.0.0.0:0", "--config", t.TempDir(), "--insecure")
	if !strings.Contains(d.log.String(), "not encrypted: others on the network can read and change the traffic, including tokens") {
		t.Errorf("no warning: %s", d.log)
	}
	_, port, _ := net.SplitHostPort(d.addrs[0].String())
	fc, ctx := client(t, "127.0.0.1:"+port, nil, "")
	if n, err := rows(ctx, fc, "SELECT * FROM series(5)"); n != 5 { // root on this machine
		t.Error(err)
	}
	// From another address a token is still required.
	for _, ip := range own(t) {
		fc, ctx := client(t, net.JoinHostPort(ip, port), nil, "")
		if _, err := rows(ctx, fc, "SELECT * FROM series(5)"); status.Code(err) != codes.Unauthenticated {
			t.Errorf("at %s: %v", ip, err)
		}
	}
}

// own returns this machine's addresses other than the loopback.
func own(t testing.TB) (ips []string) {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			ips = append(ips, n.IP.String())
		}
	}
	return ips
}

// Input that is not Flight SQL, or too large, is refused, and the daemon survives.
func TestBadBytes(t *testing.T) {
	dir := configured(t, twoUsers)
	token := command(t, "token", "add", "alice", "--config", dir)
	d := begin(t, "--listen", "127.0.0.1:0", "--unix", filepath.Join(dir, "s"), "--config", dir)
	addr := d.addrs[0].String()
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frame := func(length int, kind, flags byte, stream int, payload string) string {
		return string([]byte{byte(length >> 16), byte(length >> 8), byte(length), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}) + payload
	}
	junk := map[string]string{
		"nothing":             "",
		"HTTP/1":              "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"noise":               strings.Repeat("\xff\x00\x13", 5000),
		"a frame of 16 MB":    preface + frame(1<<24-1, 0, 0, 1, strings.Repeat("x", 1<<16)),
		"headers of nonsense": preface + frame(0, 4, 0, 0, "") + frame(100, 1, 4, 1, strings.Repeat("\xff", 100)),
		"continuation alone":  preface + frame(0, 4, 0, 0, "") + frame(5, 9, 4, 1, "hello"),
		"half a preface":      preface[:9],
		"data before headers": preface + frame(0, 4, 0, 0, "") + frame(5, 0, 1, 3, "hello"),
	}
	for name, text := range junk {
		for _, open := range map[string]func() (net.Conn, error){
			"plain": func() (net.Conn, error) { return net.Dial("tcp", addr) },
			"unix":  func() (net.Conn, error) { return net.Dial("unix", filepath.Join(dir, "s")) },
			"tls": func() (net.Conn, error) {
				conf := trusting(t, dir, "")
				conf.NextProtos = []string{"h2"}
				return tls.Dial("tcp", "localhost:"+strings.Split(addr, ":")[1], conf)
			},
		} {
			c, err := open()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}
	fc, ctx := client(t, addr, trusting(t, dir, ""), token)
	if _, err := rows(ctx, fc, "SELECT '"+strings.Repeat("x", 5<<20)+"' FROM series(1)"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a statement of 5 MB: %.200v", err)
	}
	if _, err := rows(ctx, fc, "SELECT "+strings.Repeat("(", 100_000)); err == nil {
		t.Error("100,000 brackets are a statement")
	}
	for _, ticket := range []string{"", "\xff\xff\xff", strings.Repeat("\x0a", 1000), `{"Result":`} {
		if r, err := fc.DoGet(ctx, &flight.Ticket{Ticket: []byte(ticket)}); err == nil {
			for r.Next() {
			}
			if r.Err() == nil {
				t.Errorf("the ticket %q is accepted", ticket)
			}
			r.Release()
		}
	}
	if n, err := rows(ctx, fc, "SELECT * FROM series(5)"); n != 5 {
		t.Fatalf("the daemon does not live: %v", err)
	}
}

// A user whose token is revoked loses running queries within moments.
func TestRevokedUserLosesRunningQueries(t *testing.T) {
	dir := configured(t, twoUsers)
	token := command(t, "token", "add", "bob", "--config", dir)
	d := begin(t, "--listen", "127.0.0.1:0", "--config", dir)
	fc, ctx := client(t, d.addrs[0].String(), trusting(t, dir, ""), token)
	begun := make(chan error, 1)
	go func() {
		_, err := rows(ctx, fc, "SELECT * FROM SAMPLE(memory_usage, 10ms)")
		begun <- err
	}()
	testenv.Until(t, "the query runs", func() bool {
		select {
		case err := <-begun:
			t.Fatalf("the query has ended: %v", err)
		default:
		}
		n, err := rows(ctx, fc, "SHOW QUERIES")
		return err == nil && n == 1
	})
	id := strings.Fields(strings.Split(command(t, "token", "list", "--config", dir), "\n")[1])[0]
	command(t, "token", "revoke", id, "--config", dir)
	select {
	case <-begun:
	case <-time.After(2 * time.Minute):
		t.Error("the query goes on")
	}
	if _, err := rows(ctx, fc, "SELECT * FROM series(1)"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call after it: %v", err)
	}
}

// A revoked certificate's queries end, and its connection is closed, without a restart.
// So do those of a certificate that expires.
func TestCertificatesThatEnd(t *testing.T) {
	dir := configured(t, twoUsers)
	command(t, "cert", "bob", "--config", dir)
	d := begin(t, "--listen", "127.0.0.1:0", "--config", dir)
	const endless = "SELECT * FROM SAMPLE(memory_usage, 10ms)"
	connect := func(user string) (c *flightsql.Client, ctx context.Context, over chan error) {
		c, ctx = client(t, d.addrs[0].String(), trusting(t, dir, user), "")
		over = make(chan error, 1)
		go func() { _, err := rows(ctx, c, endless); over <- err }()
		return c, ctx, over
	}
	alice, aliceCtx, aliceOver := connect("alice")
	bob, bobCtx, bobOver := connect("bob") // an admin sees both queries
	testenv.Until(t, "both queries run", func() bool {
		n, err := rows(bobCtx, bob, "SHOW QUERIES")
		return err == nil && n == 2
	})
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "clients", "alice.pem"), filepath.Join(dir, "clients", "alice.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "revoked"), fmt.Appendf(nil, "%x\n", certificate.Leaf.SerialNumber), 0o644); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-aliceOver:
		if err == nil {
			t.Error("the query of a revoked certificate ends without an error")
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the query of a revoked certificate goes on")
	}
	testenv.Until(t, "its connection is closed", func() bool { return strings.Contains(d.log.String(), "closed a connection") })
	if _, err := rows(aliceCtx, alice, "SELECT * FROM series(1)"); err == nil {
		t.Error("a revoked certificate is accepted")
	}
	alone := func(what string) {
		testenv.Until(t, what, func() bool {
			n, err := rows(bobCtx, bob, "SHOW QUERIES")
			return err == nil && n == 1
		})
	}
	alone("the query of the revoked certificate has ended")
	// A new certificate of the same user is another one, and ends when it expires.
	for life := 4 * time.Second; ; life *= 2 {
		command(t, "cert", "alice", "--config", dir, "--replace", "--expires", life.String())
		_, _, aliceOver = connect("alice")
		began := false
		testenv.Until(t, "the query runs, or its certificate has expired", func() bool {
			n, err := rows(bobCtx, bob, "SHOW QUERIES")
			began = err == nil && n == 2
			return began || len(aliceOver) == 1
		})
		if began {
			break
		}
		<-aliceOver
	}
	select {
	case err := <-aliceOver:
		if err == nil {
			t.Error("the query of an expired certificate ends without an error")
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the query of an expired certificate goes on")
	}
	alone("the query of the expired certificate has ended")
	if len(bobOver) > 0 {
		t.Errorf("the query of a valid certificate has ended: %v", <-bobOver)
	}
}

func TestMonitoring(t *testing.T) {
	d := begin(t, "--unix", filepath.Join(t.TempDir(), "s"), "--config", t.TempDir(), "--metrics", "127.0.0.1:0")
	fc, ctx := client(t, "unix:"+d.addrs[0].String(), nil, "")
	if n, err := rows(ctx, fc, "SELECT * FROM series(3000)"); n != 3000 {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) string {
		t.Helper()
		resp, err := http.Get("http://" + d.addrs[1].String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, resp.Status, err)
		}
		return string(text)
	}
	if got := get("/healthz"); got != "ok\n" {
		t.Errorf("healthz: %q", got)
	}
	// Later a busy machine may miss samples.
	if got := get("/metrics"); !strings.Contains(got, "\nendoscope_events_lost_total 0\n") {
		t.Errorf("before samples:\n%s", got)
	}
	running := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, err := rows(ctx, fc, "SELECT * FROM SAMPLE(memory_usage, 10ms)")
		running <- err
	}()
	wants := []string{"endoscope_sessions 1", "endoscope_queries 1", "endoscope_queries_started_total 2", "endoscope_probes 0", "endoscope_events_lost_total ",
		`endoscope_user_queries{user="unix:` + me.Username + `"} 1`, "process_resident_memory_bytes ", "go_goroutines "}
	testenv.UntilNil(t, "the metrics count the query", func() error {
		select {
		case err := <-running:
			t.Fatalf("the query has ended: %v", err)
		default:
		}
		text := get("/metrics")
		missing := ""
		for _, want := range wants {
			if !strings.Contains(text, "\n"+want) {
				missing += want + "\n"
			}
		}
		if missing != "" {
			return fmt.Errorf("missing:\n%s in:\n%s", missing, text)
		}
		return nil
	})
	cancel()
	<-running
	http.DefaultClient.CloseIdleConnections()
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		msg  string
	}{
		{[]string{"init"}, exitFailed, "needs the names by which clients reach it"},
		{[]string{"token", "add", "../x", "--config", t.TempDir()}, exitFailed, "is not a valid user name"},
		{[]string{"token", "add", "x", "--expires", "soon", "--config", t.TempDir()}, exitUsage, `--expires takes 12h or 90d, not "soon"`},
		{[]string{"token", "revoke", "abc", "--config", t.TempDir()}, exitFailed, "there is no token abc"},
		{[]string{"cert", "alice", "--config", t.TempDir()}, exitFailed, "the CA cannot be read"},
		{[]string{"--listen", "127.0.0.1:0", "--access", "/nowhere"}, exitFailed, "/nowhere"},
		{[]string{"--listen", "127.0.0.1:0", "--config", t.TempDir(), "--require-certificate"}, exitFailed, "--require-certificate needs certificates"},
	} {
		var msg testenv.Buffer
		if code := (Program{Stdout: io.Discard, Stderr: &msg}).Run(t.Context(), c.args); code != c.code || !strings.Contains(msg.String(), c.msg) {
			t.Errorf("%v: exit code %d: %s", c.args, code, msg.String())
		}
	}
	if d, err := lifetime("90d"); err != nil || d != 90*24*time.Hour {
		t.Errorf("90d is %v, %v", d, err)
	}
}

func TestStateOutlivesTheDaemon(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--unix", filepath.Join(dir, "s"), "--config", dir, "--state", filepath.Join(dir, "state")}
	d := begin(t, args...)
	fc, ctx := client(t, "unix:"+d.addrs[0].String(), nil, "")
	for _, statement := range []string{
		"CREATE STREAM load AS SELECT timestamp, percent_busy AS busy FROM SAMPLE(cpu_usage, 20ms)",
		"CREATE TRIGGER hot ON load WHEN busy >= 0 BEGIN NOTIFY 'hot' END",
	} {
		if _, err := fc.ExecuteUpdate(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	var msg testenv.Buffer
	if code := (Program{Stderr: &msg}).Run(ctx, []string{"--unix", filepath.Join(dir, "s2"), "--config", dir, "--state", filepath.Join(dir, "state")}); code != exitFailed || !strings.Contains(msg.String(), "another daemon uses") {
		t.Errorf("a second daemon: exit code %d: %s", code, msg.String())
	}
	if code := d.stop(); code != 0 {
		t.Fatalf("exit code %d: %s", code, d.log)
	}
	d = begin(t, args...)
	fc, ctx = client(t, "unix:"+d.addrs[0].String(), nil, "")
	if n, err := rows(ctx, fc, "SELECT * FROM hot LIMIT 3"); n != 3 {
		t.Errorf("%d activations, %v: %s", n, err, d.log)
	}
}
