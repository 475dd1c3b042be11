package fleettrust

import (
	"fmt"
	"io"
	"strings"
)

// Layout names what a fleet uses on a NATS server.
//
//	stream KV_<bucket>, subjects $KV.<bucket>.>   the bucket of queries
//	<prefix>.kv.>                                  what was written to it, published again
//	<prefix>.head, .lease.<author>.<query> ...     from authors and reducers to hosts
//	<prefix>.beat.<host>, .out.<query>.<shard>.<host>   from a host
//	_INBOX.<role>.<name>.>                         replies to a member
type Layout struct{}

// Token returns a member's name as one token of a subject, or of a key of a bucket.
func Token(name string) string {
	return strings.NewReplacer(".", "=2E", "@", "=40").Replace(name)
}

// Permissions are those of a user of a NATS server: subjects that it may publish and
// subscribe. All others are denied.
type Permissions struct {
	Publish   []string
	Subscribe []string
}

// BusPermissions returns the permissions of a member's user.
func BusPermissions(m *Member) Permissions { return Permissions{} }

// InboxPrefix returns the prefix of the inboxes of a member (nats.CustomInboxPrefix).
func InboxPrefix(m *Member) string {
	return fmt.Sprintf("_INBOX.%s.%s", m.Role, Token(m.Name))
}

// WriteBusUsers writes the users of members for the configuration of a NATS server.
func WriteBusUsers(w io.Writer, members []*Member) error { return nil }
