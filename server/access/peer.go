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

// Peer is the kernel's identification of the process at the other end of a local
// connection.
type Peer struct {
	credentials.CommonAuthInfo
	Known bool
	UID   uint32
}

// AuthType implements credentials.AuthInfo.
func (Peer) AuthType() string { return "peer" }

// Plain returns credentials for unencrypted connections: by unix socket, over the
// loopback, and, if that is allowed, from other hosts, whose peers are not
// identified.
func Plain() credentials.TransportCredentials { return plain{} }

type plain struct{}

func (plain) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, PeerOf(c), nil
}

// PeerOf identifies the other end of an unencrypted connection.
func PeerOf(c net.Conn) credentials.AuthInfo {
	p := Peer{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}
	if uid, err := peerUID(c); err == nil {
		p.Known, p.UID = true, uid
		p.SecurityLevel = credentials.PrivacyAndIntegrity // the connection does not leave the machine
	}
	return p
}

func (plain) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("access: these credentials are for servers only")
}

func (plain) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "insecure"}
}
func (p plain) Clone() credentials.TransportCredentials { return p }
func (plain) OverrideServerName(string) error           { return nil }

// peerUID returns the user id of the process at the other end.
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
		return 0, errors.New("the peer is on another machine")
	}
	return tcpUID(remote, local)
}

// unixUID returns the user id by SO_PEERCRED: the credentials at the time of
// connecting.
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

// tcpUID returns the owner of the socket that is connected from one local address to
// another, by the kernel's table of connections. A socket without a process is listed
// as root's; hence the entry must be established and have an inode (tcp4_seq_show in
// net/ipv4/tcp_ipv4.c).
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

// isAddr reports whether an address in the table equals a. The table has the address
// as 32-bit words in host byte order, in hexadecimal, and the port.
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
