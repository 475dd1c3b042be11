package bus

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// Address is how a bus is reached.
type Address struct {
	URL   string // of one or several servers, separated by commas
	Creds string // file of NATS credentials; "": none
	// Server is a server in this process, instead of URL.
	Server nats.InProcessConnProvider
	// User are options that identify a user otherwise than by Creds.
	User []nats.Option
}

// URLForm is how the URL of a bus is written.
const URLForm = "nats://HOST:4222"

// CheckURL returns what is wrong with the URL of a bus; nil: nothing. Several are separated
// by commas. A server without a scheme is one of NATS.
func CheckURL(url string) error {
	for server := range strings.SplitSeq(url, ",") {
		server = strings.TrimSpace(server)
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := neturl.Parse(server)
		if err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return fmt.Errorf("%q is not the URL of a NATS server", url)
		}
	}
	return nil
}

// patience is how long a server may be silent before the connection counts as lost.
const patience = 2 * time.Second

// Connect connects to a bus, and again whenever the connection is lost. With wait it does
// not fail if no server can be reached now.
func (a *Address) Connect(name string, wait bool) (*nats.Conn, error) {
	o := []nats.Option{nats.Name("endoscope " + name), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond),
		nats.PingInterval(patience), nats.MaxPingsOutstanding(2), nats.Timeout(5 * time.Second),
		nats.ReconnectBufSize(-1), // what could not be sent is sent again by its own rules
		nats.RetryOnFailedConnect(wait), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if a.Creds != "" {
		o = append(o, nats.UserCredentials(a.Creds))
	}
	o = append(o, a.User...)
	if a.Server != nil {
		o = append(o, nats.InProcessServer(a.Server))
	}
	nc, err := nats.Connect(a.URL, o...)
	if err != nil {
		return nil, fmt.Errorf("the bus %s cannot be reached: %s", a.URL, strings.TrimPrefix(err.Error(), "nats: "))
	}
	return nc, nil
}

// Prepare creates the buckets and streams of the bus that do not exist. replicas is their
// number of copies in a cluster; 0: 1.
func Prepare(ctx context.Context, nc *nats.Conn, replicas int) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	replicas = max(replicas, 1)
	err = errors.Join(
		bucket(ctx, js, jetstream.KeyValueConfig{Bucket: QueryBucket, Description: "queries of the fleet", History: 1, LimitMarkerTTL: time.Hour, Replicas: replicas,
			RePublish: &jetstream.RePublish{Source: "$KV." + QueryBucket + ".*.*", Destination: queryPrefix + "{{wildcard(1)}}.{{wildcard(2)}}"}}),
		bucket(ctx, js, jetstream.KeyValueConfig{Bucket: HostBucket, Description: "hosts of the fleet", History: 1, Replicas: replicas}),
		bucket(ctx, js, jetstream.KeyValueConfig{Bucket: KeeperBucket, Description: "who keeps each standing query", History: 1, TTL: RecordsKept, Replicas: replicas}))
	if err != nil {
		return explained(err)
	}
	return explained(errors.Join(
		stream(ctx, js, jetstream.StreamConfig{Name: HeartbeatStream, Description: "the last heartbeat of each host", Subjects: []string{AllHeartbeats},
			Storage: jetstream.MemoryStorage, MaxMsgsPerSubject: 1, AllowDirect: true, NoAck: true, Replicas: replicas}),
		stream(ctx, js, jetstream.StreamConfig{Name: RecordStream, Description: "the last results of each standing query", Subjects: []string{RecordsOf("*")},
			MaxMsgsPerSubject: mostRecords, MaxAge: RecordsKept, AllowDirect: true, Replicas: replicas})))
}

func stream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) error {
	_, err := js.CreateStream(ctx, c)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil
	}
	return err
}

func bucket(ctx context.Context, js jetstream.JetStream, c jetstream.KeyValueConfig) error {
	_, err := js.CreateKeyValue(ctx, c)
	if errors.Is(err, jetstream.ErrBucketExists) {
		return nil
	}
	return err
}

// explained adds what a user can do about an error of JetStream.
func explained(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return errors.New("the bus has no JetStream, in which queries are stored: start nats-server with -js")
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the bus does not answer: JetStream is not enabled there, or this user may not use it")
	}
	return fmt.Errorf("the bus: %w", err)
}

// Change is a change of QueryBucket.
type Change struct {
	Query   string // id
	Value   []byte // nil: it was deleted
	Seq     uint64
	Expired bool // it was deleted because of its age
	Over    bool // Value is the tombstone of the query
}

// Changed decodes a message of AllQueries. ok is false if it is none.
func Changed(m *nats.Msg) (c Change, ok bool) {
	n, err := m.Header["Nats-Sequence"], error(nil)
	if len(n) == 1 {
		_, err = fmt.Sscan(n[0], &c.Seq)
	}
	c.value(m.Subject, m.Data, m.Header)
	return c, len(n) == 1 && err == nil && c.Query != ""
}

func (c *Change) value(subject string, data []byte, h nats.Header) {
	at := strings.LastIndexByte(subject, '.')
	c.Query, c.Over = subject[at+1:], strings.HasSuffix(subject[:max(at, 0)], "."+tombstoneKeys)
	c.Expired = h.Get("Nats-Marker-Reason") == "MaxAge"
	if h.Get("KV-Operation") == "" && h.Get("Nats-Marker-Reason") == "" {
		c.Value = data
	}
}

// Queries reads QueryBucket without a consumer.
func Queries(ctx context.Context, nc *nats.Conn) (all []Change, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	if all, err = queriesOf(ctx, js, ">"); err == nil || !strings.Contains(err.Error(), "Too Many Results") {
		return all, err
	}
	all = nil
	for _, first := range keyDigits + standingKeys + tombstoneKeys {
		more, err := queriesOf(ctx, js, string(first)+".>")
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// StandingQueries reads the standing queries of QueryBucket without a consumer.
func StandingQueries(ctx context.Context, nc *nats.Conn) ([]Change, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return queriesOf(ctx, js, standingKeys+".>")
}

func queriesOf(ctx context.Context, js jetstream.JetStream, keys string) (all []Change, err error) {
	msgs, err := jetstreamext.GetLastMsgsFor(ctx, js, "KV_"+QueryBucket, []string{"$KV." + QueryBucket + "." + keys})
	if err != nil {
		return nil, err
	}
	for m, err := range msgs {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			break
		}
		if err != nil {
			return nil, err
		}
		c := Change{Seq: m.Sequence}
		c.value(m.Subject, m.Data, m.Header)
		all = append(all, c)
	}
	return all, nil
}

// DescribeHost stores a host's description.
func DescribeHost(ctx context.Context, nc *nats.Conn, host string, description []byte) error {
	m, err := nc.RequestWithContext(ctx, "$KV."+HostBucket+"."+Token(host), description)
	if err != nil {
		return explained(err)
	}
	var ack jetstream.PubAck
	return Decode(m.Data, &ack)
}
