package web

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

func TestLinkWorksOnceWithinItsLife(t *testing.T) {
	s, addr := serve(t, &fakeEngine{}, Options{})
	c := &caller{t: t, addr: addr}
	token := tokenOf(s)
	if status, _ := c.post("login", map[string]string{"token": "no such token"}); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: status %d", status)
	}
	if status, _ := c.post("login", map[string]string{"token": token}); status != http.StatusOK {
		t.Errorf("the first time: status %d", status)
	}
	if status, _ := c.post("login", map[string]string{"token": token}); status != http.StatusUnauthorized {
		t.Errorf("the second time: status %d", status)
	}
	late := s.logins.offer(nil, time.Now().Add(-LinkLife))
	if status, _ := c.post("login", map[string]string{"token": late}); status != http.StatusUnauthorized {
		t.Errorf("after its life: status %d", status)
	}
	if status, _ := c.post("query", ask{Query: 1, Text: "x", Cursor: 1}); status != http.StatusUnauthorized {
		t.Errorf("a query without a key: status %d", status)
	}
	other := loggedIn(t, s, addr)
	status, out := other.post("link", struct{}{})
	if status != http.StatusOK {
		t.Fatalf("a link to another page: %d %v", status, out)
	}
	if status, _ := c.post("login", map[string]any{"token": out["token"]}); status != http.StatusOK {
		t.Errorf("the link of a page: status %d", status)
	}
}

func TestRequestsOfOtherSitesAreRefused(t *testing.T) {
	s, addr := serve(t, &fakeEngine{}, Options{Hosts: []string{"db1.example"}})
	_, port, _ := net.SplitHostPort(addr)
	c := loggedIn(t, s, addr)
	for _, x := range []struct {
		host, origin string
		status       int
	}{
		{addr, "http://" + addr, http.StatusOK},
		{"localhost:" + port, "http://localhost:" + port, http.StatusOK},
		{"DB1.example:" + port, "http://DB1.example:" + port, http.StatusOK},
		{"evil.example:" + port, "http://evil.example:" + port, http.StatusMisdirectedRequest}, // DNS rebinding
		{"127.0.0.1", "http://127.0.0.1", http.StatusMisdirectedRequest},
		{addr, "http://evil.example", http.StatusForbidden},
		{addr, "http://localhost:" + port, http.StatusForbidden},
		{addr, "https://" + addr, http.StatusForbidden},
		{addr, "null", http.StatusForbidden},
		{addr, "", http.StatusForbidden},
	} {
		answer := c.do(t.Context(), "link", struct{}{}, func(r *http.Request) {
			r.Host = x.host
			r.Header.Set("Origin", x.origin)
		})
		answer.Body.Close()
		if answer.StatusCode != x.status {
			t.Errorf("host %q, origin %q: status %d, want %d", x.host, x.origin, answer.StatusCode, x.status)
		}
	}
}

func TestPageHasAPolicyAndNothingInline(t *testing.T) {
	_, addr := serve(t, &fakeEngine{}, Options{})
	files := 0
	err := fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		path := "/app/" + strings.TrimPrefix(name, "assets/")
		answer, err := http.Get("http://" + addr + path)
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Security-Policy") != policy ||
			answer.Header.Get("X-Content-Type-Options") != "nosniff" || answer.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %s %v", path, answer.Status, answer.Header)
		}
		text, err := fs.ReadFile(embedded, name)
		if err != nil {
			return err
		}
		for _, sink := range []string{`innerHTML`, `outerHTML`, `insertAdjacentHTML`, `document\.write`, `\beval\(`, `new Function`, `\bstyle="`, ` on[a-z]+="`, `<style`, `<script(?: type="module")?>`, `DOMParser`, `createContextualFragment`, `document\.cookie`} {
			if at := regexp.MustCompile(sink).FindIndex(text); at != nil {
				t.Errorf("%s has %s", name, text[at[0]:at[1]])
			}
		}
		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("%d files, %v", files, err)
	}
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
}

func TestPageThatIsClosedEndsItsQueries(t *testing.T) {
	e := &fakeEngine{}
	s, addr := serve(t, e, Options{})
	c := loggedIn(t, s, addr)
	lines, closePage := c.open()
	if status, out := c.post("query", ask{Query: 1, Text: "rows", Cursor: 4}); status != http.StatusOK {
		t.Fatal(status, out)
	}
	c.next(lines, "rows")
	if n := e.results.Load(); n != 2 { // the query, and the rows of triggers
		t.Errorf("%d results are open", n)
	}
	closePage()
	testenv.Until(t, "the session has ended", func() bool { return e.results.Load() == 0 && e.sessions.Load() == 0 })
	if status, _ := c.post("query", ask{Query: 2, Text: "rows", Cursor: 4}); status != http.StatusConflict {
		t.Errorf("a query of a closed page: status %d", status)
	}
	lines, closePage = c.open() // the key is still valid
	defer closePage()
	c.post("query", ask{Query: 1, Text: "one", Cursor: 3})
	c.next(lines, "end")
}

// A page that does not read fills the buffers of the connection; then nothing is taken from
// its queries, and after the stall they end.
func TestPageThatDoesNotReadEnds(t *testing.T) {
	e := &fakeEngine{}
	s, addr := serve(t, e, Options{Stall: 100 * time.Millisecond})
	c := loggedIn(t, s, addr)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := "POST /api/open HTTP/1.1\r\nHost: " + addr + "\r\nOrigin: http://" + addr + "\r\nAuthorization: Bearer " + c.key + "\r\nContent-Length: 2\r\n\r\n{}"
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the page is open", func() bool { return e.sessions.Load() == 1 })
	testenv.Until(t, "the query has begun", func() bool {
		status, _ := c.post("query", ask{Query: 1, Text: "rows", Cursor: 4})
		return status == http.StatusOK
	})
	testenv.Until(t, "the session has ended", func() bool { return e.results.Load() == 0 && e.sessions.Load() == 0 })
}

func TestErrorsHaveTheirPlaceInThePage(t *testing.T) {
	s, addr := serve(t, &fakeEngine{}, Options{})
	c := loggedIn(t, s, addr)
	_, closePage := c.open()
	defer closePage()
	text := "-- 😀é\nwrong x" // the place counts UTF-16 units, the engine bytes
	start := len([]rune("-- 😀é\n")) + 1
	status, out := c.post("query", ask{Query: 1, Text: text, Start: start, Cursor: start + 7})
	f, _ := out["error"].(map[string]any)
	if status != http.StatusBadRequest || f["start"] != float64(start+6) || f["stop"] != float64(start+7) || f["hint"] != "right" {
		t.Errorf("%d %v", status, out)
	}
	if text, _ := f["text"].(string); text != "error: this is wrong\n  wrong x\n        ^\nhint: right" {
		t.Errorf("%q", text)
	}
}

func TestEditorGetsTokensAndCandidates(t *testing.T) {
	s, addr := serve(t, &fakeEngine{}, Options{})
	c := loggedIn(t, s, addr)
	_, closePage := c.open()
	defer closePage()
	text := "-- 😀\nSELECT * FROM func"
	status, out := c.post("edit", ask{Text: text, Cursor: units(text), Want: "complete"})
	if status != http.StatusOK || out["word"] != float64(units(text)-4) {
		t.Fatalf("%d %v", status, out)
	}
	found, _ := out["candidates"].([]any)
	if len(found) != 1 || found[0].(map[string]any)["text"] != "function_start" {
		t.Errorf("candidates %v", found)
	}
	tokens, _ := out["tokens"].([]any)
	if len(tokens) != 3 { // the comment, SELECT and FROM
		t.Errorf("tokens %v", tokens)
	}
	if _, out = c.post("edit", ask{Text: "SELECT FROM WHERE", Want: "check"}); out["error"] == nil {
		t.Error("a wrong statement has no error")
	}
}

func TestMessagesOfTriggersArrive(t *testing.T) {
	s, addr := serve(t, &fakeEngine{}, Options{})
	c := loggedIn(t, s, addr)
	lines, closePage := c.open()
	defer closePage()
	c.post("query", ask{Query: 1, Text: "tell", Cursor: 4})
	if l := c.next(lines, "note"); l["text"] != "a message" {
		t.Errorf("%v", l)
	}
}

// onlyToken is an Access that knows one token.
type onlyToken string

func (o onlyToken) Identify(ctx context.Context) (*wire.User, error) {
	if v := metadata.ValueFromIncomingContext(ctx, "authorization"); len(v) == 1 && v[0] == "Bearer "+string(o) {
		return &wire.User{Name: "alice", Via: "token 1"}, nil
	}
	return nil, errors.New("not a user")
}

func TestUsersAreThoseOfTheAccess(t *testing.T) {
	e := &fakeEngine{}
	_, addr := serve(t, e, Options{Access: onlyToken("secret")})
	c := &caller{t: t, addr: addr}
	for _, token := range []string{"", "other"} {
		if status, _ := c.post("login", map[string]string{"token": token}); status != http.StatusUnauthorized {
			t.Errorf("token %q: status %d", token, status)
		}
	}
	status, out := c.post("login", map[string]string{"token": "secret"})
	if status != http.StatusOK || out["user"] != "alice" {
		t.Fatalf("%d %v", status, out)
	}
	c.key = out["key"].(string)
	_, closePage := c.open()
	defer closePage()
	if u := e.user.Load(); u == nil || u.Name != "alice" {
		t.Errorf("the session's user is %v", u)
	}
}

func TestNoSecretIsLogged(t *testing.T) {
	var log testenv.Buffer
	s, addr := serve(t, &fakeEngine{}, Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	token := tokenOf(s)
	c := &caller{t: t, addr: addr}
	_, out := c.post("login", map[string]string{"token": token})
	c.key = out["key"].(string)
	c.post("login", map[string]string{"token": token}) // refused, and logged
	_, closePage := c.open()
	closePage()
	if text := log.String(); !strings.Contains(text, "refused") || strings.Contains(text, token) || strings.Contains(text, c.key) {
		t.Errorf("the log is\n%s", text)
	}
}

func TestPagesAndResultsAreLimited(t *testing.T) {
	e := &fakeEngine{}
	s, addr := serve(t, e, Options{})
	c := loggedIn(t, s, addr)
	_, closePage := c.open()
	defer closePage()
	status := 0
	for i := 1; i <= mostResults; i++ { // one of them is that of triggers
		status, _ = c.post("query", ask{Query: i, Text: "one", Cursor: 3})
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("more results than permitted: status %d", status)
	}
	c.post("close", ask{Query: 1})
	if status, _ = c.post("query", ask{Query: 99, Text: "one", Cursor: 3}); status != http.StatusOK {
		t.Errorf("after a result was closed: status %d", status)
	}
}
