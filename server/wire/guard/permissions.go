package guard

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
)

// Permissions are the subjects that a user of a NATS server may publish and subscribe. All
// others are denied, those of JetStream's API in particular.
type Permissions struct {
	Publish   []string
	Subscribe []string
	// Responses: the user may answer each message that it receives, once.
	Responses bool
}

// JetStream's API, as far as it is used. Reading by direct get creates nothing.
const (
	directGet    = "$JS.API.DIRECT.GET."
	accountInfo  = "$JS.API.INFO"
	streamInfo   = "$JS.API.STREAM.INFO."
	streamCreate = "$JS.API.STREAM.CREATE." // that of a stream that exists changes nothing
	bucketPrefix = "KV_"
	keyPrefix    = "$KV."
)

// stored are the streams of a fleet.
var stored = []string{bucketPrefix + bus.QueryBucket, bucketPrefix + bus.HostBucket, bus.HeartbeatStream, listStream, bucketPrefix + bus.KeeperBucket, bus.RecordStream}

// InboxPrefix returns the prefix of the subjects to which a member is answered.
func InboxPrefix(m *fleettrust.Member) string {
	return "_INBOX." + m.Role.String() + "." + bus.Token(m.Name)
}

// PermissionsOf returns the permissions of a member's user.
func PermissionsOf(m *fleettrust.Member) Permissions {
	inbox := InboxPrefix(m) + ".>"
	switch m.Role {
	case fleettrust.Host:
		return Permissions{
			Publish: slices.Concat([]string{bus.HeartbeatSubject(m.Name), bus.ResultSubject("*", m.Name), bus.PartsOfHost(m.Name), keyPrefix + bus.HostBucket + "." + bus.Token(m.Name)},
				reading(bucketPrefix+bus.QueryBucket, listStream)),
			Subscribe: []string{bus.AllQueries, bus.AllLeases, bus.HostSubject(m.Name), allLists, inbox},
			Responses: true, // to questions
		}
	case fleettrust.Author, fleettrust.Reducer:
		p := Permissions{
			Publish:   append([]string{bus.AllLeases, bus.AllHosts}, reading(stored...)...),
			Subscribe: []string{bus.AllQueries, bus.AllLeases, bus.AllHeartbeats, bus.ResultsOf("*"), bus.AllParts, allLists, inbox},
		}
		if m.Role == fleettrust.Author {
			p.Publish = append(p.Publish, keyPrefix+bus.QueryBucket+".>", allLists, accountInfo)
			for _, s := range stored {
				p.Publish = append(p.Publish, streamInfo+s, streamCreate+s)
			}
			p.Publish = append(p.Publish, consuming(bucketPrefix+bus.HostBucket, bus.HeartbeatStream)...)
		} else {
			name := bus.ReducerName(m.Name)
			p.Publish = append(p.Publish, bus.HeartbeatSubject(name), bus.ResultSubject("*", name), keyPrefix+bus.KeeperBucket+".*", bus.RecordsOf("*"))
			for _, s := range stored {
				p.Publish = append(p.Publish, streamInfo+s)
			}
			p.Publish = append(p.Publish, consuming(bucketPrefix+bus.HostBucket, bus.HeartbeatStream)...)
			p.Subscribe = append(p.Subscribe, bus.HostSubject(name))
			p.Responses = true
		}
		return p
	}
	return Permissions{}
}

// reading returns the subjects by which streams are read.
func reading(streams ...string) (all []string) {
	for _, s := range streams {
		all = append(all, directGet+s, directGet+s+".>")
	}
	return all
}

// consuming returns the subjects by which streams are followed.
func consuming(streams ...string) (all []string) {
	for _, s := range streams {
		for _, what := range []string{"CREATE", "INFO", "DELETE", "MSG.NEXT"} {
			all = append(all, "$JS.API.CONSUMER."+what+"."+s+".>")
		}
		all = append(all, "$JS.FC."+s+".>")
	}
	return all
}

// WriteUsers writes the users of members as a part of the configuration of a NATS server.
// Each is identified by its key, so the configuration has no secrets.
func WriteUsers(w io.Writer, members []*fleettrust.Member) error {
	var b strings.Builder
	b.WriteString("# The users of the fleet, by endoscoped bus. Include it in the configuration of each nats-server.\nauthorization {\n  users = [\n")
	for _, m := range members {
		p := PermissionsOf(m)
		fmt.Fprintf(&b, "    # %s %s\n    { nkey: %s, permissions: {\n", m.Role, m.Name, m.BusUser)
		fmt.Fprintf(&b, "      publish: { allow: [%s] }\n", quoted(p.Publish))
		fmt.Fprintf(&b, "      subscribe: { allow: [%s] }\n", quoted(p.Subscribe))
		if p.Responses {
			b.WriteString("      allow_responses: { max: 1, expires: \"10s\" }\n")
		}
		b.WriteString("    } }\n")
	}
	b.WriteString("  ]\n}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func quoted(subjects []string) string {
	all := make([]string, len(subjects))
	for i, s := range subjects {
		all[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(all, ", ")
}

// User returns the options that identify the member at a NATS server.
func (g *Guard) User() []nats.Option {
	return []nats.Option{nats.Nkey(g.me.BusUser, g.me.SignNonce), nats.CustomInboxPrefix(InboxPrefix(g.me.Member))}
}
