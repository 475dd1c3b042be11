package daemon

import (
	"errors"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// opened are the daemon's listeners.
type opened struct {
	names   []string // of all: serve, web, metrics
	serve   []net.Listener
	web     net.Listener // nil: none
	metrics net.Listener // nil: none
	files   []*os.File   // of all, for a worker
}

// open opens the listeners of the command line.
func (c *config) open() (o *opened, err error) {
	o = &opened{}
	defer func() {
		if err != nil {
			o.close()
			o = nil
		}
	}()
	if c.listen != "" {
		l, err := net.Listen("tcp", c.listen)
		if err != nil {
			return o, cannot("--listen", c.listen, err)
		}
		o.add("serve", l)
	}
	if c.unix != "" {
		l, err := listenUnix(c.unix, c.group)
		if err != nil {
			return o, err
		}
		o.add("serve", l)
	}
	if c.web != "" {
		l, err := net.Listen("tcp", c.web)
		if err != nil {
			return o, cannot("--web", c.web, err)
		}
		o.add("web", l)
	}
	if c.metrics != "" {
		l, err := net.Listen("tcp", c.metrics)
		if err != nil {
			return o, cannot("--metrics", c.metrics, err)
		}
		o.add("metrics", l)
	}
	return o, nil
}

func (o *opened) add(name string, l net.Listener) {
	switch name {
	case "metrics":
		o.metrics = l
	case "web":
		o.web = l
	default:
		o.serve = append(o.serve, l)
	}
}

// share makes files of the listeners, with their names.
func (o *opened) share() error {
	for _, l := range o.all() {
		f, err := l.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			return err
		}
		o.files = append(o.files, f)
		name := "serve"
		switch l {
		case o.metrics:
			name = "metrics"
		case o.web:
			name = "web"
		}
		o.names = append(o.names, name)
	}
	return nil
}

func (o *opened) all() []net.Listener {
	all := slices.Clip(o.serve)
	for _, l := range []net.Listener{o.web, o.metrics} {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
}

func (o *opened) close() {
	for _, l := range o.all() {
		_ = l.Close()
	}
	for _, f := range o.files {
		_ = f.Close()
	}
}

// listenUnix listens on a socket that its owner and its group may use. It replaces a
// stale socket on which no process listens.
func listenUnix(path, group string) (net.Listener, error) {
	if err := removeDead(path); err != nil {
		return nil, cannot("--unix", path, err)
	}
	// Set before the socket exists, so that no other user can ever connect.
	old := syscall.Umask(0o117)
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return nil, cannot("--unix", path, err)
	}
	if group != "" {
		gid, err := groupID(group)
		if err == nil {
			err = os.Chown(path, -1, gid)
		}
		if err != nil {
			_ = l.Close()
			return nil, cannot("--group", group, err)
		}
	}
	return l, nil
}

// removeDead removes a socket on which no process listens.
func removeDead(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return errors.New("it exists and is not a socket")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return errors.New("another process listens there")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

func groupID(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if errors.As(err, new(user.UnknownGroupError)) {
		return 0, errors.New("no such group")
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}
