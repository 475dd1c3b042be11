package daemon

import (
	"errors"
	"net"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"
)

// listeners opens the listeners of the command line.
func (c *config) listeners() (ls []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range ls {
				_ = l.Close()
			}
			ls = nil
		}
	}()
	if c.listen != "" {
		l, err := net.Listen("tcp", c.listen)
		if err != nil {
			return ls, cannot("--listen", c.listen, err)
		}
		ls = append(ls, l)
	}
	if c.unix != "" {
		l, err := listenUnix(c.unix, c.group)
		if err != nil {
			return ls, err
		}
		ls = append(ls, l)
	}
	return ls, nil
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
