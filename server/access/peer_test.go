package access

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// asUser runs f on its own thread with another user id.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
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

// The kernel identifies the user at the other end of a connection.
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
				t.Skipf("this machine has no %s: %v", c.network, err) // many machines have no IPv6
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
			// The table lists a socket without a process as root's; it must not be
			// accepted as such.
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
