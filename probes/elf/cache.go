package elf

import (
	"container/list"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Cache keeps recently opened modules, for the many processes that share a
// file. The zero value is ready to use. Its methods are safe for concurrent
// use.
type Cache struct {
	search  Search
	mu      sync.Mutex
	views   []*Cache // of other searches
	entries map[fileID]*list.Element
	recent  list.List // of *cached, the most recently used first
}

// cacheModules is the number of modules kept in addition to those in use.
const cacheModules = 64

// fileID identifies a file's content: any change to it changes a time.
type fileID struct {
	dev, ino, size uint64
	mtime, ctime   unix.Timespec
}

// cached is a module in a cache.
type cached struct {
	id       fileID
	file     *os.File // our own descriptor: the caller's may be closed
	contents *contents
	err      error
	parsed   sync.Once
	users    int // guarded by Cache.mu
}

// Open is like [Open] but reads each file once. The caller may close f as soon
// as Open returns. Close returns the module to the cache.
func (c *Cache) Open(f *os.File, display string) (*Module, error) {
	id, err := identify(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", display, err)
	}
	e, err := c.acquire(id, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", display, err)
	}
	// Parsing happens outside the lock; concurrent callers for the same file
	// wait here.
	e.parsed.Do(func() { e.contents, e.err = open(e.file, c.search) })
	if e.err != nil {
		c.release(e)
		return nil, fmt.Errorf("%s: %w", display, e.err)
	}
	var once sync.Once
	return &Module{display: display, contents: e.contents, close: func() error {
		once.Do(func() { c.release(e) })
		return nil
	}}, nil
}

// acquire finds or adds the entry of a file and counts a user.
func (c *Cache) acquire(id fileID, f *os.File) (*cached, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.entries[id]; el != nil && el.Value.(*cached).lacksDebugFile() {
		c.drop(el)
	}
	if el := c.entries[id]; el != nil {
		c.recent.MoveToFront(el)
		e := el.Value.(*cached)
		e.users++
		return e, nil
	}
	own, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	if c.entries == nil {
		c.entries = map[fileID]*list.Element{}
	}
	e := &cached{id: id, file: own, users: 1}
	c.entries[id] = c.recent.PushFront(e)
	for el := c.recent.Back(); c.recent.Len() > cacheModules && el != nil; {
		previous := el.Prev()
		if c.recent.Len() > cacheModules && el.Value.(*cached).users == 0 {
			c.drop(el)
		}
		el = previous
	}
	return e, nil
}

// fetchAgain is how long a module is kept whose debug file could not be fetched.
const fetchAgain = time.Minute

// lacksDebugFile reports whether an unused module is to be read again, because
// its debug file may be fetched by now.
func (e *cached) lacksDebugFile() bool {
	if e.users > 0 || e.contents == nil {
		return false
	}
	at := e.contents.unfetched.Load()
	return at != nil && time.Since(*at) > fetchAgain
}

// release ends one use of an entry. Failures are not cached.
func (c *Cache) release(e *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	if e.users == 0 && (e.err != nil || c.recent.Len() > cacheModules) {
		if el := c.entries[e.id]; el != nil && el.Value == e {
			c.drop(el)
		}
	}
}

// drop removes an unused entry.
func (c *Cache) drop(el *list.Element) {
	e := el.Value.(*cached)
	delete(c.entries, e.id)
	c.recent.Remove(el)
	e.file.Close()
	if e.contents != nil {
		e.contents.close()
	}
}

// Close removes the unused modules; the others are freed when their last user
// closes them.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.views {
		v.Close()
	}
	for el := c.recent.Front(); el != nil; {
		next := el.Next()
		if el.Value.(*cached).users == 0 {
			c.drop(el)
		}
		el = next
	}
	return nil
}

func identify(f *os.File) (id fileID, err error) {
	err = withFD(f, func(fd int) error {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		id = fileID{dev: st.Dev, ino: st.Ino, size: uint64(st.Size), mtime: st.Mtim, ctime: st.Ctim}
		return nil
	})
	return id, err
}

func duplicate(f *os.File) (own *os.File, err error) {
	err = withFD(f, func(fd int) error {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			own = os.NewFile(uintptr(n), f.Name())
		}
		return err
	})
	return own, err
}

// withFD calls do with f's descriptor, without making f blocking as Fd does.
func withFD(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = do(int(fd)) })
	if failed != nil {
		return failed
	}
	return err
}
