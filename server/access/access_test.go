package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"endoscope/operators/batch"
	"endoscope/probes/testenv"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// made is a directory with certificates.
func made(t *testing.T, hosts ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "endoscope")
	if _, err := Init(dir, hosts); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestInit(t *testing.T) {
	dir := made(t, "db1.example", "10.0.0.7")
	if _, err := NewClient(dir, "alice"); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"ca.pem": 0o644, "ca.key": 0o600, "server.pem": 0o644, "server.key": 0o600,
		"clients/alice.pem": 0o644, "clients/alice.key": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o, want %o", name, info.Mode().Perm(), mode)
		}
	}
	before, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Init(dir, []string{"other"}); err == nil || !strings.Contains(err.Error(), "is there already: nothing was changed") {
		t.Errorf("a second time: %v", err)
	}
	if _, err := NewClient(dir, "alice"); err == nil {
		t.Error("a client's certificate was replaced")
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "ca.key")); !slices.Equal(before, after) {
		t.Error("the CA's key was replaced")
	}
	// Where only one file is in the way, none is made.
	half := t.TempDir()
	if err := os.WriteFile(filepath.Join(half, "server.key"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(half, []string{"h"}); err == nil {
		t.Error("made over a key")
	}
	if entries, _ := os.ReadDir(half); len(entries) != 1 {
		t.Errorf("%d files stay of what was not made", len(entries))
	}
	for _, name := range []string{"", "../x", "a/b", "-x", ".x", "a b", strings.Repeat("x", 80)} {
		if _, err := NewClient(dir, name); err == nil {
			t.Errorf("a certificate for %q was made", name)
		}
	}
}

// handshake has a client meet the server of a directory, and gives what each of
// them thinks of it, and who the client is.
func handshake(t *testing.T, dir string, required bool, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	conf, err := ServerTLS(dir, required)
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	deadline := time.Now().Add(5 * time.Second)
	_, _ = a.SetDeadline(deadline), b.SetDeadline(deadline)
	server := tls.Server(a, conf)
	done := make(chan error, 1)
	go func() {
		err := server.Handshake()
		if err == nil {
			_, err = server.Write([]byte{1})
		}
		a.Close()
		done <- err
	}()
	c := tls.Client(b, client)
	if clientErr = c.Handshake(); clientErr == nil {
		_, clientErr = c.Read(make([]byte, 1)) // TLS 1.3 tells of a refused certificate only now
	}
	b.Close()
	serverErr = <-done
	return server.ConnectionState(), serverErr, clientErr
}

// trusting is a client that trusts a directory's CA, with the certificate of a user
// of another, which may be the same ("": none).
func trusting(t *testing.T, dir, from, user string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "db1"}
	c.RootCAs.AppendCertsFromPEM(text)
	if user != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(from, "clients", user+".pem"), filepath.Join(from, "clients", user+".key"))
		if err != nil {
			t.Fatal(err)
		}
		// Also to a server that does not ask for one of its CA.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c
}

func TestTLS(t *testing.T) {
	dir, stranger := made(t, "db1"), made(t, "db1")
	for _, d := range []string{dir, stranger} {
		if _, err := NewClient(d, "alice"); err != nil {
			t.Fatal(err)
		}
	}
	state, serverErr, clientErr := handshake(t, dir, true, trusting(t, dir, dir, "alice"))
	if serverErr != nil || clientErr != nil || state.Version != tls.VersionTLS13 || state.VerifiedChains[0][0].Subject.CommonName != "alice" {
		t.Errorf("a client's certificate: %v, %v, version %x", serverErr, clientErr, state.Version)
	}
	if state, serverErr, clientErr := handshake(t, dir, false, trusting(t, dir, "", "")); serverErr != nil || clientErr != nil || len(state.VerifiedChains) != 0 {
		t.Errorf("without a certificate, where a token will do: %v, %v", serverErr, clientErr)
	}
	refused := map[string]func() (error, error){
		"no certificate, where one is required": func() (error, error) {
			_, s, c := handshake(t, dir, true, trusting(t, dir, "", ""))
			return s, c
		},
		"a certificate of another CA": func() (error, error) {
			_, s, c := handshake(t, dir, false, trusting(t, dir, stranger, "alice"))
			return s, c
		},
		"a server of another CA": func() (error, error) {
			_, s, c := handshake(t, stranger, false, trusting(t, dir, "", ""))
			return s, c
		},
		"another name": func() (error, error) {
			conf := trusting(t, dir, "", "")
			conf.ServerName = "db2"
			_, s, c := handshake(t, dir, false, conf)
			return s, c
		},
		"TLS 1.2": func() (error, error) {
			conf := trusting(t, dir, dir, "alice")
			conf.MaxVersion = tls.VersionTLS12
			_, s, c := handshake(t, dir, false, conf)
			return s, c
		},
		// The server's own certificate is no client's.
		"the server's certificate": func() (error, error) {
			conf := trusting(t, dir, "", "")
			pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key"))
			if err != nil {
				t.Fatal(err)
			}
			conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			_, s, c := handshake(t, dir, false, conf)
			return s, c
		},
	}
	for name, f := range refused {
		if s, c := f(); s == nil || c == nil {
			t.Errorf("%s: server %v, client %v", name, s, c)
		}
	}
}

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	text, k, err := tokens.Add("alice", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) != len("endoscope_")+43 { // 256 bits
		t.Errorf("a token of %d characters", len(text))
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if secret := strings.TrimPrefix(text, "endoscope_"); strings.Contains(string(kept), secret) {
		t.Error("the token is kept as it is")
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %o", info.Mode().Perm())
	}
	other, _, err := tokens.Add("bob", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	expired, old, err := tokens.Add("carol", time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := OpenTokens(path) // the daemon, while the command changes the file
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]string{text: "alice", other: "bob", expired: "", text[:len(text)-1]: "", text + "x": "", "": "", "endoscope_": ""} {
		if got, ok := elsewhere.Find(secret); got.User != want || ok != (want != "") {
			t.Errorf("%.14s...: %q, want %q", secret, got.User, want)
		}
	}
	if elsewhere.Has("carol", old.ID()) {
		t.Error("an expired token is good")
	}
	if _, err := tokens.Revoke(k.ID()); err != nil {
		t.Fatal(err)
	}
	if _, ok := elsewhere.Find(text); ok || elsewhere.Has("alice", k.ID()) {
		t.Error("a revoked token is good")
	}
	if _, err := tokens.Revoke(k.ID()); err == nil || err.Error() != "there is no token "+k.ID() {
		t.Errorf("revoked twice: %v", err)
	}
	if _, ok := elsewhere.Find(other); !ok {
		t.Error("another one went, too")
	}
	if err := os.WriteFile(path, []byte("alice nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTokens(path); err == nil || !strings.Contains(err.Error(), "tokens:1: a token has a user") {
		t.Errorf("nonsense: %v", err)
	}
}

// village are users of a machine that is not there.
type village map[uint32]string

func (v village) byName(name string) (uint32, error) {
	for uid, n := range v {
		if n == name {
			return uid, nil
		}
	}
	return 0, fmt.Errorf("this machine has no user %s", name)
}

func (v village) byID(uid uint32) (string, []uint32, error) {
	if name, ok := v[uid]; ok {
		return name, []uint32{uid, 100}, nil
	}
	return "", nil, fmt.Errorf("none")
}

var villagers = village{0: "root", 1000: "alice", 1001: "bob", 26: "postgres"}

// TestPolicy reads files of users. "parse" prints what each may do, or the
// mistake; "of" who a user of the machine is, and what they may do.
func TestPolicy(t *testing.T) {
	datadriven.RunTest(t, "testdata/policy", func(t *testing.T, d *datadriven.TestData) string {
		p, err := parsePolicy(strings.NewReader(d.Input), "users", villagers)
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		var b strings.Builder
		for _, name := range p.names() {
			g, l, _ := p.grantOf(name, villagers)
			fmt.Fprintf(&b, "%s: admin %t, trace %t, commands %t, models %t, read %q, write %q, webhooks %v\n", name, g.Admin, g.Trace, g.Commands, g.Models, g.Read, g.Write, g.Webhooks)
			fmt.Fprintf(&b, "  sees %+v\n  limits %+v\n", *g.Viewer, l)
		}
		for _, uid := range []uint32{0, 1000, 1001, 7} {
			name := p.userOf(uid, villagers)
			fmt.Fprintf(&b, "uid %d is %q", uid, name)
			if g, _, ok := p.localGrant(uid, villagers); ok && strings.HasPrefix(name, localPrefix) {
				fmt.Fprintf(&b, ": admin %t, trace %t, anywhere %t, sees %+v", g.Admin, g.Trace, g.Anywhere, *g.Viewer)
			}
			b.WriteString("\n")
		}
		return b.String()
	})
}

func TestExampleReads(t *testing.T) {
	if _, err := parsePolicy(strings.NewReader(Example), "users", villagers); err != nil {
		t.Error(err)
	}
	// And so does all that is in it as an example.
	all := strings.ReplaceAll(Example, "\n#user", "\nuser")
	all = strings.ReplaceAll(all, "\n#  ", "\n  ")
	all = strings.ReplaceAll(all, "postgres www", "postgres")
	p, err := parsePolicy(strings.NewReader(all), "users", villagers)
	if err != nil {
		t.Fatal(err)
	}
	if e := p.users["alice"]; e == nil || !e.commands || len(e.webhooks) != 1 || e.limits != defaultLimits {
		t.Errorf("the example says %+v", e)
	}
}

// asUser runs f on a thread of its own, which has another user.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
		if errno != 0 {
			done <- errno
			return
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// The kernel says whose the other end of a connection is.
func TestPeerUID(t *testing.T) {
	testenv.NeedRoot(t)
	const uid = 51234
	dir := t.TempDir()
	for d := dir; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "s")
	for name, c := range map[string]struct {
		network, addr string
		family        int
		to            func(net.Addr) unix.Sockaddr
	}{
		"unix": {"unix", socket, unix.AF_UNIX, func(net.Addr) unix.Sockaddr { return &unix.SockaddrUnix{Name: socket} }},
		"tcp": {"tcp4", "127.0.0.1:0", unix.AF_INET, func(a net.Addr) unix.Sockaddr {
			return &unix.SockaddrInet4{Port: a.(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
		}},
		"tcp6": {"tcp6", "[::1]:0", unix.AF_INET6, func(a net.Addr) unix.Sockaddr {
			return &unix.SockaddrInet6{Port: a.(*net.TCPAddr).Port, Addr: [16]byte{15: 1}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen(c.network, c.addr)
			if err != nil {
				t.Skipf("this machine has no %s: %v", c.network, err) // as many have no IPv6
			}
			defer l.Close()
			if c.network == "unix" {
				if err := os.Chmod(socket, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			var fd int
			asUser(t, uid, func() {
				if fd, err = unix.Socket(c.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
					err = unix.Connect(fd, c.to(l.Addr()))
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, info, err := Plain().ServerHandshake(conn)
			if err != nil {
				t.Fatal(err)
			}
			if p := info.(Peer); !p.Known || p.UID != uid {
				t.Errorf("the peer is %+v, want %d", p, uid)
			}
			// A socket that nobody has any more is root's for the table: not for us.
			unix.Close(fd)
			if c.network == "unix" {
				return
			}
			if u, err := peerUID(conn); err == nil {
				t.Errorf("a closed socket is that of %d", u)
			}
		})
	}
}

// call is a call with a token, and a connection as it was identified.
func call(authorization string, info credentials.AuthInfo) context.Context {
	ctx := peer.NewContext(context.Background(), &peer.Peer{AuthInfo: info})
	if authorization != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", authorization))
	}
	return ctx
}

func TestIdentify(t *testing.T) {
	dir := t.TempDir()
	users, secrets := filepath.Join(dir, "users"), filepath.Join(dir, "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(users+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(users+".new", users); err != nil {
			t.Fatal(err)
		}
	}
	write("user alice\n role read\nuser carol\n role trace\n unix root\n")
	a, err := New(Options{Policy: users, Tokens: secrets})
	if err != nil {
		t.Fatal(err)
	}
	text, k, err := a.tokens.Add("alice", 0)
	if err != nil {
		t.Fatal(err)
	}
	stranger, _, err := a.tokens.Add("mallory", 0) // a token, and no entry
	if err != nil {
		t.Fatal(err)
	}
	certified := func(name string) credentials.AuthInfo {
		leaf := &x509.Certificate{}
		leaf.Subject.CommonName = name
		return credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}}
	}
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, c := range []struct {
		name, authorization string
		info                credentials.AuthInfo
		want                string // user, or the refusal
	}{
		{"token", "Bearer " + text, credentials.TLSInfo{}, "alice"},
		{"token as password", basic("whoever", text), credentials.TLSInfo{}, "alice"},
		{"certificate", "", certified("alice"), "alice"},
		{"root of this machine, who has an entry", "", Peer{Known: true, UID: 0}, "carol"},
		{"a token before who connects", "Bearer " + text, Peer{Known: true, UID: 0}, "alice"},
		{"wrong token", "Bearer " + text[:30], credentials.TLSInfo{}, "the token is not valid"},
		{"wrong token, though root", "Bearer x", Peer{Known: true, UID: 0}, "the token is not valid"},
		{"token of who has no entry", "Bearer " + stranger, credentials.TLSInfo{}, "the token is not valid"},
		{"another scheme", "Digest " + text, credentials.TLSInfo{}, "the token is not valid"},
		{"bad Basic", "Basic !", credentials.TLSInfo{}, "the token is not valid"},
		{"certificate of who has no entry", "", certified("mallory"), "who has this certificate has no access"},
		{"neither", "", credentials.TLSInfo{}, "who calls is not known: it takes a client certificate, or a token"},
		{"plaintext from elsewhere", "", Peer{}, "who calls is not known: it takes a token"},
		{"nothing known", "", nil, "who calls is not known"},
	} {
		u, err := a.Identify(call(c.authorization, c.info))
		got := ""
		if err != nil {
			_, got, _ = strings.Cut(err.Error(), "desc = ")
		} else {
			got = u.Name
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}

	// Who loses the token, or the entry, has nothing any more.
	u, err := a.Identify(call("Bearer "+text, credentials.TLSInfo{}))
	if err != nil || a.grantFor(u) == nil {
		t.Fatal(err)
	}
	byCert := &wire.User{Name: "alice", Via: "certificate 1"}
	if _, err := a.tokens.Revoke(k.ID()); err != nil {
		t.Fatal(err)
	}
	if a.grantFor(u) != nil {
		t.Error("a revoked token has a grant")
	}
	if a.grantFor(byCert) == nil {
		t.Error("a certificate went with a token")
	}
	write("user alice\n role nonsense\n")
	if a.grantFor(byCert) == nil {
		t.Error("a file with a mistake took a user away")
	}
	write("user bob\n role read\n")
	if a.grantFor(byCert) != nil {
		t.Error("who is in the file no more has a grant")
	}
}

// engineOf is an engine whose sessions do nothing.
type engineOf struct {
	mu       sync.Mutex
	closed   int
	expelled []string
}

func (e *engineOf) As(*grant.Grant) wire.Engine { return idle{e} }
func (e *engineOf) Close() error                { return nil }
func (e *engineOf) Expel(user string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expelled = append(e.expelled, user)
}

type idle struct{ *engineOf }

func (i idle) NewSession(context.Context, wire.Options) (wire.Session, error) {
	return &quiet{e: i.engineOf}, nil
}

type quiet struct {
	wire.Session
	e *engineOf
}

// begun is told of each statement, and goOn lets it end.
var begun, goOn = make(chan bool), make(chan bool)

func (q *quiet) Execute(context.Context, string, ...batch.Value) (wire.Result, error) {
	begun <- true
	<-goOn
	return &nothing{e: q.e}, nil
}

// nothing is a result that counts as closed once it is.
type nothing struct {
	wire.Result
	e *engineOf
}

func (n *nothing) Close() error {
	n.e.mu.Lock()
	defer n.e.mu.Unlock()
	n.e.closed++
	return nil
}

// What a user begins just while they are expelled does not outlive that.
func TestExpelledInAStatement(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("user alice\n role trace\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Policy: users})
	if err != nil {
		t.Fatal(err)
	}
	e := &engineOf{}
	g := NewGuard(e, a, nil)
	defer g.Close()
	s, err := g.NewSession(t.Context(), wire.Options{User: &wire.User{Name: "alice", Via: "certificate 1"}})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		_, err := s.Execute(t.Context(), "CREATE TRIGGER ...")
		over <- err
	}()
	<-begun
	if err := os.WriteFile(users, []byte("user bob\n role trace\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g.expel() // which is through before the statement is
	expelled := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.expelled)
	}
	before := expelled()
	goOn <- true
	if err := <-over; status.Code(err) != codes.Unauthenticated {
		t.Errorf("the statement gives %v", err)
	}
	if n := expelled(); before == 0 || n <= before {
		t.Errorf("alice was expelled %d times before her statement was through, and %d in all", before, n)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed != 2 {
		t.Errorf("%d are closed, of the session and the result", e.closed)
	}
}

func (q *quiet) Close() error {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	q.e.closed++
	return nil
}

// repeating is an engine whose results are given again from the first row.
type repeating struct{ engineOf }

func (e *repeating) As(*grant.Grant) wire.Engine { return e }
func (e *repeating) NewSession(context.Context, wire.Options) (wire.Session, error) {
	return &repeats{quiet{e: &e.engineOf}}, nil
}

type repeats struct{ quiet }

func (r *repeats) Execute(_ context.Context, statement string, _ ...batch.Value) (wire.Result, error) {
	if statement == "live" {
		return &nothing{e: r.e}, nil
	}
	return again{&nothing{e: r.e}}, nil
}

type again struct{ wire.Result }

func (again) StartsOver() bool { return true }

// What a result says of being executed again, by which a client that has lost its
// connection goes, is said through the guard, too.
func TestGuardedResultsStartOver(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("user alice\n role trace\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Policy: users})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGuard(&repeating{}, a, nil)
	defer g.Close()
	s, err := g.NewSession(t.Context(), wire.Options{User: &wire.User{Name: "alice", Via: "certificate 1"}})
	if err != nil {
		t.Fatal(err)
	}
	for statement, want := range map[string]bool{"live": false, "SELECT * FROM file('calls.csv')": true} {
		r, err := s.Execute(t.Context(), statement)
		if err != nil {
			t.Fatal(err)
		}
		b, ok := r.(interface{ StartsOver() bool })
		if got := ok && b.StartsOver(); got != want {
			t.Errorf("%s: starts over: %t, want %t", statement, got, want)
		}
		_ = r.Close()
	}
}

// When what a user may do changes, what they run by the old rule ends; limits
// change for what comes.
func TestGuardHoldsToTheFile(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(users+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(users+".new", users); err != nil {
			t.Fatal(err)
		}
	}
	write("user alice\n role trace\nuser bob\n role read\n")
	a, err := New(Options{Policy: users})
	if err != nil {
		t.Fatal(err)
	}
	e := &engineOf{}
	g := NewGuard(e, a, nil)
	defer g.Close()
	for _, name := range []string{"alice", "bob"} {
		if _, err := g.NewSession(t.Context(), wire.Options{User: &wire.User{Name: name, Via: "certificate 1"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.NewSession(t.Context(), wire.Options{}); err == nil {
		t.Error("a session of nobody")
	}
	state := func() string {
		g.expel()
		e.mu.Lock()
		defer e.mu.Unlock()
		return fmt.Sprint(g.Sessions(), e.closed, e.expelled)
	}
	for _, c := range []struct{ file, want string }{
		{"user alice\n role trace\nuser bob\n role read\n", "2 0 []"},
		{"user alice\n role trace\n limits queries=1\nuser bob\n role read\n", "2 0 []"},
		{"user alice\n role read\nuser bob\n role read\n", "1 1 [alice]"},
		{"user alice\n role read\n", "0 2 [alice bob]"},
		{"user alice\n role read\n", "0 2 [alice bob]"},
	} {
		write(c.file)
		if got := state(); got != c.want {
			t.Errorf("after\n%s%s, want %s", c.file, got, c.want)
		}
	}
	if l := a.account("alice", grant.Limits{Queries: 1}).Limits(); l.Queries != 1 {
		t.Errorf("limits %+v", l)
	}
}
