package remote_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"endoscope/client/remote"
	"endoscope/server/wire"
)

// A server of another kind is not mistaken for an engine that requires encryption,
// whether it answers in its own protocol or closes the connection.
func TestNoEngine(t *testing.T) {
	for _, answer := range []string{"-ERR wrong number of arguments\r\n", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", ""} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 1024)) // an unknown greeting
				_, _ = c.Write([]byte(answer))
				_ = c.Close()
			}
		}()
		e, err := remote.Dial(l.Addr().String(), remote.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var lost *remote.LostError
		if _, err = e.NewSession(t.Context(), wire.Options{}); !errors.As(err, &lost) || lost.Why != "the server there is not an engine" || !strings.HasPrefix(lost.Hint(), "--connect needs") {
			t.Errorf("%q is answered: %v", answer, err)
		}
	}
}
