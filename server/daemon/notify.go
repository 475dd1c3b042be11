package daemon

import (
	"net"
	"os"
)

// notify sends the daemon's state to the service manager, as sd_notify(3) does.
// Without NOTIFY_SOCKET it does nothing.
func notify(state string) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	if name[0] == '@' { // an abstract socket
		name = "\x00" + name[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(state)) // failure is not an error
}
