package web

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"endoscope/parser"
)

// policy permits the page's own files only, no markup from text, and no frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// guard refuses requests with another Host or Origin, and sets the headers that protect
// the page.
func (s *Server) guard(at net.Addr, tls bool, next http.Handler) http.Handler {
	hosts := s.hosts(at)
	scheme := "http://"
	if tls {
		scheme = "https://"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				s.o.Log.Error("a request failed by an internal error", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				refuse(w, http.StatusInternalServerError, "internal error of the server; its log has the details")
			}
		}()
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !slices.Contains(hosts, strings.ToLower(r.Host)) {
			refuse(w, http.StatusMisdirectedRequest, "the page is not served under this host name")
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			if r.Header.Get("Origin") != scheme+r.Host {
				refuse(w, http.StatusForbidden, "the request comes from another site")
				return
			}
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestIn))
		}
		next.ServeHTTP(w, r)
	})
}

// hosts returns the values of Host that requests to a listener may have.
func (s *Server) hosts(at net.Addr) (all []string) {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return nil
	}
	_, port, _ := net.SplitHostPort(tcp.String())
	names := slices.Clone(s.o.Hosts)
	if !tcp.IP.IsUnspecified() {
		names = append(names, tcp.IP.String())
	}
	if tcp.IP.IsLoopback() || tcp.IP.IsUnspecified() {
		names = append(names, "localhost", "127.0.0.1", "::1")
	}
	for _, n := range names {
		n = strings.ToLower(n)
		all = append(all, net.JoinHostPort(n, port))
		if port == "443" {
			all = append(all, n)
		}
	}
	return all
}

//go:embed assets
var embedded embed.FS

// assets serves the page's files.
func assets() http.Handler {
	types := map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/app/")
		if r.URL.Path == "/" {
			name = "index.html"
		}
		body, err := fs.ReadFile(embedded, "assets/"+name)
		if err != nil || types[path.Ext(name)] == "" {
			refuse(w, http.StatusNotFound, "there is no such file")
			return
		}
		w.Header().Set("Content-Type", types[path.Ext(name)])
		_, _ = w.Write(body)
	})
}

// failure is an error for the page. Start and Stop are positions in the text that the page
// has sent, in UTF-16 units as JavaScript counts; Start < 0: none.
type failure struct {
	Status int    `json:"-"`
	Msg    string `json:"msg"`
	Hint   string `json:"hint,omitempty"`
	Text   string `json:"text"` // the whole error with line and caret, as in a terminal
	Start  int    `json:"start"`
	Stop   int    `json:"stop"`
}

func (f *failure) Error() string { return f.Msg }

func failed(code int, msg string) *failure {
	return &failure{Status: code, Msg: msg, Text: "error: " + msg, Start: -1, Stop: -1}
}

// failureOf converts an error of the engine about a statement that is at offset in the text
// of the page.
func failureOf(err error, text string, offset int) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var e *parser.Error
	if !errors.As(err, &e) {
		return failed(http.StatusBadRequest, status.Convert(err).Message()) // its text, if it is no status
	}
	f = &failure{Status: http.StatusBadRequest, Msg: e.Msg, Hint: e.Hint, Text: parser.Format(e), Start: -1, Stop: -1}
	if e.Src == "" || e.Pos.Start < 0 || offset+len(e.Src) > len(text) || text[offset:offset+len(e.Src)] != e.Src {
		return f // no position, or one in the text of a definition
	}
	f.Start = units(text[:offset+min(e.Pos.Start, len(e.Src))])
	f.Stop = units(text[:offset+min(max(e.Pos.Stop, e.Pos.Start), len(e.Src))])
	return f
}

// units returns the length of a text in UTF-16 units.
func units(text string) (n int) {
	for _, r := range text {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}

// bytesOf returns the length in bytes of the first n UTF-16 units of text.
func bytesOf(text string, n int) int {
	at := 0
	for i, r := range text {
		if at >= n {
			return i
		}
		if at++; r > 0xffff {
			at++
		}
	}
	return len(text)
}

func refuse(w http.ResponseWriter, code int, msg string) { answerError(w, failed(code, msg)) }

func answerError(w http.ResponseWriter, f *failure) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": f})
}

// call is a handler of requests with a body of JSON. Its result becomes the answer.
func call[In, Out any](do func(*http.Request, In) (Out, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in In
		body := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody))
		if err := body.Decode(&in); err != nil {
			refuse(w, http.StatusBadRequest, "the request cannot be read, or is longer than 1 MiB")
			return
		}
		received(w)
		out, err := do(r, in)
		if err != nil {
			answerError(w, failureOf(err, "", 0))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	})
}

// received ends the deadline of a request's body: what follows may take longer.
func received(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// ask is the body of the requests of a page; each uses some of the fields.
type ask struct {
	Query  int    `json:"q"`      // number of a result, chosen by the page
	Text   string `json:"text"`   // of statements
	Start  int    `json:"start"`  // of the statement, in UTF-16 units
	Cursor int    `json:"cursor"` // of edit; of others the end of the statement
	Want   string `json:"want"`   // of edit: "complete", "check"

	Analyze bool  `json:"analyze"`
	From    int64 `json:"from"` // of series: ns since the result's epoch
	To      int64 `json:"to"`
	Width   int   `json:"width"`
	Column  int   `json:"column"`
	Picture int   `json:"picture"`
}

// onPage is a handler of requests about the page whose key the request has.
func (s *Server) onPage(do func(*page, context.Context, ask) (any, error)) http.Handler {
	return call(func(r *http.Request, in ask) (any, error) {
		l := s.logins.of(r, s.now())
		if l == nil {
			return nil, failed(http.StatusUnauthorized, "this page is not logged in")
		}
		p := l.page.Load()
		if p == nil {
			return nil, failed(http.StatusConflict, "the page's session has ended")
		}
		return do(p, r.Context(), in)
	})
}
