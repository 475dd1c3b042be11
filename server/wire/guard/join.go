package guard

import (
	"fmt"
	"os"

	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
)

// Join returns how a member reaches its bus with a file of credentials. With one of
// endoscoped enroll the bus is not trusted; with NATS credentials, or without any (""), it
// is. state is a directory that keeps what must not be forgotten, such as the newest list
// of revoked certificates; "": none.
func Join(url, credentials, state string) (bus.Address, bus.Trust, error) {
	to := bus.Address{URL: url, Creds: credentials}
	if credentials == "" {
		return to, bus.Open{}, nil
	}
	text, err := os.ReadFile(credentials)
	if err != nil {
		return to, nil, err
	}
	if !fleettrust.AreCredentials(text) {
		return to, bus.Open{}, nil
	}
	me, err := fleettrust.LoadIdentity(credentials)
	if err != nil {
		return to, nil, err
	}
	var o Options
	if state != "" {
		o.List = fmt.Sprintf("%s/fleet.revoked", state)
	}
	g, err := New(me, o)
	if err != nil {
		return to, nil, err
	}
	to.Creds, to.User = "", g.User()
	return to, g, nil
}
