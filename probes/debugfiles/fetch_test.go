package debugfiles

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

const id = "0123456789abcdef0123456789abcdef01234567"

// server serves debug files by build-id, and lists what was asked for.
func server(t *testing.T, files map[string]string) (url string, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Path)
		path, ok := files[strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/buildid/"), "/debuginfo")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, path)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func debugFile(t *testing.T, id string) string {
	t.Helper()
	program := testenv.CompileCText(t, "int main(void) { return 0; }", "-g", "-Wl,--build-id=0x"+id)
	if out, err := exec.Command(testenv.NeedProgram(t, "objcopy"), "--only-keep-debug", program, program+".debug").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program + ".debug"
}

func TestFetch(t *testing.T) {
	file := debugFile(t, id)
	empty, _ := server(t, nil)
	url, asked := server(t, map[string]string{id: file})
	dir := filepath.Join(t.TempDir(), "cache")
	f := newFetcher([]string{empty, url}, func() (string, error) { return dir, nil }, maxFetched)
	path, notice := f.Fetch(id)
	if want := "the debug file of build-id " + id + " was fetched from " + url + ": "; !strings.HasPrefix(notice, want) || !strings.HasSuffix(notice, " kept in "+dir) {
		t.Errorf("the notice is %q\nwant %q", notice, want)
	}
	got, err := os.ReadFile(path)
	want, _ := os.ReadFile(file)
	if err != nil || string(got) != string(want) || filepath.Dir(path) != dir {
		t.Errorf("%s has %d bytes, %v", path, len(got), err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the cache: %v, %v", st, err)
	}
	// The cache answers from then on, also in another process.
	for _, f := range []*fetcher{f, newFetcher(f.servers, f.dir, maxFetched)} {
		if again, notice := f.Fetch(id); again != path || notice != "" {
			t.Errorf("again: %q, %q", again, notice)
		}
	}
	if len(*asked) != 1 {
		t.Errorf("asked for %q", *asked)
	}
}

// A failure is reported once, and leaves nothing in the cache.
func TestFetchFails(t *testing.T) {
	file, other := debugFile(t, id), debugFile(t, "ff"+id[2:])
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("<html>sign in</html>"), 0o644); err != nil {
		t.Fatal(err)
	}
	const closed = "http://127.0.0.1:1" // nobody listens there
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(broken.Close)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 1 << 10 { // without a length
			if _, err := w.Write(make([]byte, 1<<12)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(endless.Close)
	serve := func(path string) string {
		url, _ := server(t, map[string]string{id: path})
		return url
	}
	for name, c := range map[string]struct {
		url   string
		limit int64
		want  string
	}{
		"none":          {serve("") + "/none", maxFetched, "the server does not have it"},
		"no server":     {closed, maxFetched, "connection refused"},
		"broken":        {broken.URL, maxFetched, "the server says 502 Bad Gateway"},
		"large":         {serve(file), 1000, "more than 1 KiB"},
		"endless":       {endless.URL, 100 << 10, "it has more than 100 KiB"},
		"another build": {serve(other), maxFetched, "what the server sent is of another build: ff23"},
		"no ELF file":   {serve(text), maxFetched, "what the server sent is not an ELF file"},
	} {
		dir := t.TempDir()
		f := newFetcher([]string{c.url}, func() (string, error) { return dir, nil }, c.limit)
		path, notice := f.Fetch(id)
		if path != "" || !strings.HasPrefix(notice, "no debug file of build-id "+id+" was fetched from "+c.url+": ") || !strings.Contains(notice, c.want) {
			t.Errorf("%s: %q, %q", name, path, notice)
		}
		if path, notice := f.Fetch(id); path != "" || notice != "" {
			t.Errorf("%s, again: %q, %q", name, path, notice)
		}
		f.failed[id] = time.Now().Add(-2 * retryAfter)
		if _, notice := f.Fetch(id); notice == "" {
			t.Errorf("%s: not tried again later", name)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v is left", name, left)
		}
	}
	f := newFetcher([]string{closed}, func() (string, error) { return "", errors.New("no home") }, maxFetched)
	if path, notice := f.Fetch(id); path != "" || notice != "no debug file is fetched: there is no directory to keep it: no home" {
		t.Errorf("without a directory: %q, %q", path, notice)
	}
}

// Files that are not used for long are removed.
func TestCacheIsCleaned(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"old.debug": keepTime + time.Hour, "new.debug": keepTime - time.Hour, "part-1": time.Hour, "part-2": 0} {
		path, at := filepath.Join(dir, name), time.Now().Add(-age)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	clean(dir)
	var names []string
	left, _ := os.ReadDir(dir)
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got := fmt.Sprint(names); got != "[new.debug part-2]" {
		t.Errorf("left: %s", got)
	}
}

func TestServers(t *testing.T) {
	got, err := Servers(" https://a.example/  http://[::1]:8002/x ")
	if err != nil || fmt.Sprint(got) != "[https://a.example http://[::1]:8002/x]" {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"a.example", "file:///etc", "https://", "ftp://a.example", strings.Repeat("http://a ", 9)} {
		if got, err := Servers(text); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}
