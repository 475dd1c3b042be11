package daemon

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
)

// FuzzConnection sends bytes to a daemon, as HTTP/2 from its preface on, and then
// as a ticket: whatever they are it answers the next client.
//
//	go test -run '^$' -fuzz FuzzConnection -fuzztime 1m ./server/daemon
func FuzzConnection(f *testing.F) {
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for _, seed := range []string{"", settings, settings + "\x00\x00\x05\x01\x04\x00\x00\x00\x01\x82\x86\x84\x41\x00",
		settings + "\xff\xff\xff\x00\x00\x00\x00\x00\x01", "\x0a\x05hello", strings.Repeat("\x0a", 200), `{"Text":"SELECT 1","Result":"1"}`,
		"\x0a\x40type.googleapis.com/arrow.flight.protocol.sql.TicketStatementQuery\x12\x04\x0a\x02{}"} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	socket := filepath.Join(dir, "s")
	d := begin(f, "--unix", socket, "--config", dir)
	fc, _ := client(f, "unix:"+d.addrs[0].String(), nil, "")
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Millisecond))
		_, _ = c.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), text...))
		_, _ = io.Copy(io.Discard, c)
		c.Close()
		if r, err := fc.DoGet(t.Context(), &flight.Ticket{Ticket: text}); err == nil {
			for n := 0; n < 10 && r.Next(); n++ {
			}
			r.Release()
		}
		if n, err := rows(t.Context(), fc, "SELECT * FROM series(2)"); n != 2 {
			t.Fatalf("the daemon does not answer: %v", err)
		}
	})
}
