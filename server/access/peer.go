package access

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
)

// Peer is what the kernel tells of who is at the other end of a connection on
// this machine.
type Peer struct {
	credentials.CommonAuthInfo
	Known bool
	UID   uint32
}

// AuthType implements credentials.AuthInfo.
func (Peer) AuthType() string { return "peer" }

// Plain are connections without encryption: of a unix socket, of the loopback,
// and of others if that is allowed, whose peers are not known.
func Plain() credentials.TransportCredentials { return plain{} }

type plain struct{}

func (plain) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	p := Peer{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}
	if uid, err := peerUID(c); err == nil {
		p.Known, p.UID = true, uid
		p.SecurityLevel = credentials.PrivacyAndIntegrity // it does not leave the machine
	}
	return c, p, nil
}

func (plain) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("access: these credentials are a server's")
}

func (plain) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "insecure"}
}
func (p plain) Clone() credentials.TransportCredentials { return p }
func (plain) OverrideServerName(string) error           { return nil }

// peerUID is the user of the process at the other end.
func peerUID(c net.Conn) (uint32, error) {
	if w, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = w.NetConn()
	}
	if u, ok := c.(*net.UnixConn); ok {
		return unixUID(u)
	}
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return 0, err
	}
	remote, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil || !remote.Addr().Unmap().IsLoopback() {
		return 0, errors.New("the peer is elsewhere")
	}
	return tcpUID(remote, local)
}

// unixUID asks for SO_PEERCRED: the credentials of when the peer connected.
func unixUID(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return cred.Uid, nil
}

// tcpUID finds whose socket has a connection from one address of this machine to
// another in the kernel's table of connections. A socket that nobody has any more
// is told to be root's: it must be established, and have an inode
// (tcp4_seq_show in net/ipv4/tcp_ipv4.c).
func tcpUID(from, to netip.AddrPort) (uint32, error) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		uid, found := tcpTable(bufio.NewScanner(f), from, to)
		f.Close()
		if found {
			return uid, nil
		}
	}
	return 0, syscall.ESRCH
}

func tcpTable(lines *bufio.Scanner, from, to netip.AddrPort) (uid uint32, found bool) {
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		const established = "01"
		if len(f) < 10 || f[3] != established || f[9] == "0" || !isAddr(f[1], from) || !isAddr(f[2], to) {
			continue
		}
		n, err := strconv.ParseUint(f[7], 10, 32)
		return uint32(n), err == nil
	}
	return 0, false
}

// isAddr reports whether a table's address is this one: words of 32 bits as the
// machine has them, in hexadecimal, and the port.
func isAddr(text string, a netip.AddrPort) bool {
	host, port, ok := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || uint16(n) != a.Port() {
		return false
	}
	b, err := hex.DecodeString(host)
	if err != nil || len(b)%4 != 0 {
		return false
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4]) // the machine is little-endian
	}
	addr, ok := netip.AddrFromSlice(b)
	return ok && addr.Unmap() == a.Addr().Unmap()
}
