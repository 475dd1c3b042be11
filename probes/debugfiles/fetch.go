package debugfiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"endoscope/probes/elf"
)

// Limits of fetching a file. Prepare waits for it.
const (
	maxFetched  = 2 << 30          // bytes of a file
	fetchTime   = 90 * time.Second // for a file, from all servers together
	connectTime = 5 * time.Second
	answerTime  = 20 * time.Second // until the server begins to send
	// retryAfter is how long a file that could not be fetched is not asked for again.
	retryAfter = time.Minute
	// keepTime is how long a file that is not used stays in the cache.
	keepTime = 30 * 24 * time.Hour
)

// fetcher fetches debug files by build-id from debuginfod servers. It is safe for concurrent
// use.
type fetcher struct {
	servers []string
	client  *http.Client
	dir     func() (string, error) // of the cache
	limit   int64                  // maxFetched, but for tests

	mu     sync.Mutex // held while a file is fetched: one at a time
	failed map[string]time.Time
}

var _ elf.Fetcher = (*fetcher)(nil)

// fetchers are those in use, by their servers: they remember what could not be fetched.
var fetchers sync.Map

func fetcherOf(servers []string) *fetcher {
	key := strings.Join(servers, " ")
	if known, ok := fetchers.Load(key); ok {
		return known.(*fetcher)
	}
	known, _ := fetchers.LoadOrStore(key, newFetcher(servers, cacheDirectory, maxFetched))
	return known.(*fetcher)
}

func newFetcher(servers []string, dir func() (string, error), limit int64) *fetcher {
	return &fetcher{servers: servers, dir: dir, limit: limit, failed: map[string]time.Time{}, client: &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connectTime}).DialContext,
			TLSHandshakeTimeout: connectTime, ResponseHeaderTimeout: answerTime, IdleConnTimeout: time.Minute},
	}}
}

// cacheDirectory is where fetched files are kept: in the cache of the engine's user.
func cacheDirectory() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "endoscope", "debuginfod"), nil
}

// kept is a fetcher of files that have been fetched already.
type kept struct{ *fetcher }

// Key implements elf.Fetcher.
func (k kept) Key() string { return "kept" }

// Fetch implements elf.Fetcher.
func (k kept) Fetch(buildID string) (path, notice string) {
	if dir, err := k.dir(); err == nil {
		path = filepath.Join(dir, buildID+".debug")
	}
	return path, ""
}

// Key implements elf.Fetcher.
func (f *fetcher) Key() string { return strings.Join(f.servers, " ") }

// Fetch implements elf.Fetcher. A file in the cache is not fetched again, and needs no notice.
func (f *fetcher) Fetch(buildID string) (path, notice string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, err := f.dir()
	if err != nil {
		return "", fmt.Sprintf("no debug file is fetched: there is no directory to keep it: %v", err)
	}
	path = filepath.Join(dir, buildID+".debug")
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		now := time.Now()
		os.Chtimes(path, now, now) // it is used; if not, it is fetched again some day
		return path, ""
	}
	if at, ok := f.failed[buildID]; ok && time.Since(at) < retryAfter {
		return "", ""
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
	defer cancel()
	clean(dir)
	var first error
	for _, server := range f.servers {
		size, err := f.fetch(ctx, server, buildID, path)
		if err == nil {
			return path, fmt.Sprintf("the debug file of build-id %s was fetched from %s: %s in %.1f s, kept in %s", buildID, nameOf(server), sizeOf(size), time.Since(begun).Seconds(), dir)
		}
		first = cmp.Or(first, fmt.Errorf("%s: %w", nameOf(server), err))
	}
	if len(f.failed) >= maxFailed {
		clear(f.failed)
	}
	f.failed[buildID] = time.Now()
	return "", fmt.Sprintf("no debug file of build-id %s was fetched from %v", buildID, first)
}

const maxFailed = 1 << 12

// nameOf returns a server's URL without a password.
func nameOf(server string) string {
	if u, err := url.Parse(server); err == nil {
		return u.Redacted()
	}
	return server
}

func sizeOf(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

var errNoFile = errors.New("the server does not have it")

// fetch writes the debug file of a build-id to path.
func (f *fetcher) fetch(ctx context.Context, server, buildID, path string) (size int64, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/buildid/"+buildID+"/debuginfo", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("User-Agent", "endoscope")
	resp, err := f.client.Do(r)
	if err != nil {
		return 0, plainly(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return 0, errNoFile
	case resp.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("the server says %s", resp.Status)
	case resp.ContentLength > f.limit:
		return 0, fmt.Errorf("it has %s, more than %s", sizeOf(resp.ContentLength), sizeOf(f.limit))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, err
	}
	part, err := os.CreateTemp(filepath.Dir(path), "part-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(part.Name()) // once it has its name, there is none
	defer part.Close()
	size, err = io.Copy(part, io.LimitReader(resp.Body, f.limit+1))
	switch {
	case err != nil:
		return 0, plainly(err)
	case size > f.limit:
		return 0, fmt.Errorf("it has more than %s", sizeOf(f.limit))
	}
	if err := elf.CheckBuildID(part, buildID); err != nil {
		return 0, fmt.Errorf("what the server sent %w", err)
	}
	return size, os.Rename(part.Name(), path)
}

// plainly returns an error of a request without the request, which the notice names.
func plainly(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it was not complete after %v", fetchTime)
	}
	return err
}

// clean removes files from the cache that have not been used for long, and parts of files that
// were never complete.
func clean(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() {
			continue
		}
		age := time.Since(st.ModTime())
		if age > keepTime || strings.HasPrefix(e.Name(), "part-") && age > 2*fetchTime {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
