package bus

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"endoscope/server/wire"
)

// Version is the version of these messages. Who has another one is not understood.
const Version = 1

// Query is a statement that hosts execute. It is a value of QueryBucket.
type Query struct {
	Version int    `json:"version"`
	ID      string `json:"id"` // the key
	Text    string `json:"text"`
	Args    []byte `json:"args,omitempty"` // of the parameters, by columnar.EncodeValues
	// Share: each host executes its share of a query. Otherwise each executes the statement
	// alone.
	Share bool `json:"share,omitempty"`
	// Prelude are the statements (SET, USE, CREATE STREAM) of the session before it.
	Prelude []string `json:"prelude,omitempty"`
	Process string   `json:"process,omitempty"` // target, see wire.Options
	Exe     string   `json:"exe,omitempty"`
	Hosts   []string `json:"hosts"` // those that execute it, sorted
	Issued  int64    `json:"issued"`
	// Standing is set for a query that outlives its client; its hosts are then those that
	// its text chooses, also those that join later.
	Standing *Standing `json:"standing,omitempty"`
	// Reduced is set for a query whose hosts send to reducers; nil: they send to the root.
	Reduced *Reduced `json:"reduced,omitempty"`
	// Unacked is the number of bytes of rows that a host may send beyond those that were
	// acknowledged.
	Unacked int `json:"unacked"`
}

// Standing is what a standing query says of itself.
type Standing struct {
	Name string `json:"name"`
	// Keepers are the reducers that may keep it: one of them, the first if it can, is the root
	// and renews the lease.
	Keepers []string `json:"keepers"`
}

// MostShards limits the shards of a fleet.
const MostShards = 256

// Reduced is what a query says that reducers merge.
type Reduced struct {
	Shards int `json:"shards"` // of the fleet: a host is of ShardOf
	// Reducers are those whose states the root accepts.
	Reducers []string `json:"reducers"`
}

// Subject returns the subject of a host's result of the query.
func (q *Query) Subject(host string) string {
	if q.Reduced == nil {
		return ResultSubject(q.ID, host)
	}
	return PartSubject(q.ID, ShardOf(host, q.Reduced.Shards), host)
}

// Valid reports whether the query can be executed, for what depends on no host.
func (q *Query) Valid() bool {
	return q.Version == Version && (q.Reduced == nil || q.Standing == nil && q.Reduced.Shards > 0 && q.Reduced.Shards <= MostShards)
}

// Selects reports whether a host executes the query. The hosts of a standing query are chosen
// by its text.
func (q *Query) Selects(host string) bool {
	_, found := slices.BinarySearch(q.Hosts, host)
	return found
}

// Lease says, each second, that a query runs on. A host ends a query that has had none for
// LeaseLength.
type Lease struct {
	Query string `json:"query"`
	Time  int64  `json:"time"` // the root's clock, ns since 1970; hosts return it (Echo)
	Head  uint64 `json:"head"` // sequence of QueryBucket up to which agents must have read
	// Length is how long hosts run a standing query on without another lease, ns; 0:
	// LeaseLength.
	Length int64 `json:"length,omitempty"`
	// Ending: hosts return what they have, and end. Over: the results have no reader any more.
	Ending bool `json:"ending,omitempty"`
	Over   bool `json:"over,omitempty"`
}

// LeaseEvery is the interval of leases and heartbeats.
const LeaseEvery = time.Second

// LeaseLength is how long a host executes a query whose root is silent, and MostStandingLease
// how long it may execute a standing one.
const (
	LeaseLength       = 30 * time.Second
	MostStandingLease = 10 * time.Minute
)

// Lasts returns how long a host executes the query on after a lease.
func (q *Query) Lasts(l *Lease) time.Duration {
	if q.Standing == nil || l.Length <= 0 {
		return LeaseLength
	}
	return min(time.Duration(l.Length), MostStandingLease)
}

// Host describes a host. It is a value of HostBucket.
type Host struct {
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels,omitempty"`
	Version string            `json:"version,omitempty"`
	Kernel  string            `json:"kernel,omitempty"`
	// Machine identifies the machine and its boot: two hosts of one machine would count
	// its rows twice.
	Machine string `json:"machine,omitempty"`
}

// Heartbeat says that an agent runs.
type Heartbeat struct {
	Host        string  `json:"host"`
	Incarnation string  `json:"incarnation"` // of the agent: another one after each start
	Time        int64   `json:"time"`        // of the host's clock, ns since 1970
	Queries     int     `json:"queries"`     // that run
	CPU         float64 `json:"cpu"`         // the agent's share of a processor
	// Shards is the number of shards of the fleet, as a reducer has it that merges them; 0: it
	// is of a host, or of one that keeps standing queries.
	Shards int `json:"shards,omitempty"`
}

// Echo returns the time of a lease to its root, which measures the host's clock by it.
type Echo struct {
	Sent     int64 `json:"sent"`     // Lease.Time
	Received int64 `json:"received"` // by the host's clock
	Returned int64 `json:"returned"`
}

// Offset returns how far the host's clock is ahead of the root's, and the uncertainty,
// given when the root received the echo.
func (e *Echo) Offset(now int64) (ahead, uncertain time.Duration) {
	there, back := e.Received-e.Sent, e.Returned-now
	return time.Duration((there + back) / 2), time.Duration(((now - e.Sent) - (e.Returned - e.Received)) / 2)
}

// Control is a message from a root to one host.
type Control struct {
	Query       string `json:"query,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
	// Next acknowledges all items before it.
	Next uint64 `json:"next,omitempty"`
	// Missing > 0 asks for the items from it on.
	Missing uint64 `json:"missing,omitempty"`

	Ask *Question `json:"ask,omitempty"` // answered to the message's reply subject
	// Offer is a standing query for a host that its author did not know.
	Offer *Offer `json:"offer,omitempty"`
}

// Offer is a query as it is in QueryBucket, with keys for another host.
type Offer struct {
	Query string `json:"query"`
	Value []byte `json:"value"`
}

// Question asks for Session.Describe of a statement, or for Session.Complete.
type Question struct {
	Describe string        `json:"describe,omitempty"`
	Standing bool          `json:"standing,omitempty"` // the statement is one of CREATE QUERY
	Share    bool          `json:"share,omitempty"`    // Describe is about the host's share
	Complete wire.Question `json:"complete"`
	Prelude  []string      `json:"prelude,omitempty"`
	Process  string        `json:"process,omitempty"`
	Exe      string        `json:"exe,omitempty"`
}

// Answer answers a Question.
type Answer struct {
	Description wire.Description `json:"description"`
	Lines       []string         `json:"lines,omitempty"`
	Refusal     *Refusal         `json:"refusal,omitempty"`
}

// Refusal is why a host does not execute a statement: a parser.Error.
type Refusal struct {
	Msg    string `json:"msg"`
	Hint   string `json:"hint,omitempty"`
	Src    string `json:"src,omitempty"`
	Start  int    `json:"start"`
	Stop   int    `json:"stop"`
	Syntax bool   `json:"syntax,omitempty"`
}

// ItemKind is what an item is.
type ItemKind uint8

// Kinds of items.
const (
	ItemBegin   ItemKind = iota + 1 // the statement was accepted: Columns, Share, Message
	ItemRefused                     // it was not: Refusal
	ItemRows                        // rows, up to the end of a result if Flush
	ItemNotice                      // Text is for the user
	ItemEnd                         // the result has ended: Summary; Text is the error, if it failed
	ItemBeat                        // not numbered: the host is alive. Next is the number of the next item
)

// Header describes an item, in each of its parts.
type Header struct {
	Version     int      `json:"v"`
	Query       string   `json:"q"`
	Host        string   `json:"h"`
	Incarnation string   `json:"i"`
	Kind        ItemKind `json:"k"`
	Seq         uint64   `json:"s,omitempty"` // from 1
	// Needs is the item that must have been delivered before; 0: none.
	Needs uint64 `json:"n,omitempty"`
	// First is the first item that the host can still send, and Dropped the number of rows
	// of items that it had to drop.
	First   uint64 `json:"f,omitempty"`
	Dropped uint64 `json:"d,omitempty"`
	// Restarts: the item 1 can be sent, too, though First is later.
	Restarts bool   `json:"rs,omitempty"`
	Part     int    `json:"p,omitempty"`
	Parts    int    `json:"m,omitempty"`
	Mark     int64  `json:"w,omitempty"` // see wire.Event
	Flush    bool   `json:"fl,omitempty"`
	Round    uint64 `json:"o,omitempty"` // see wire.Event
	// Total: the item replaces the totals before it.
	Total bool `json:"a,omitempty"`
	// Preview: the rows are what a result that is not complete has so far.
	Preview bool          `json:"pre,omitempty"`
	Text    string        `json:"t,omitempty"`
	Columns []wire.Column `json:"c,omitempty"`
	Share   *wire.Share   `json:"sh,omitempty"`
	Refusal *Refusal      `json:"r,omitempty"`
	Summary *wire.Summary `json:"su,omitempty"`
	Echo    *Echo         `json:"e,omitempty"`
	Shard   *Shard        `json:"sd,omitempty"` // of a reducer
}

// Shard says what a reducer has merged in an item.
type Shard struct {
	Number int    `json:"n"`
	Epoch  uint64 `json:"e"` // see ShardLease
	// Once: the rows are all of the windows that end at End, or with the largest End of the
	// whole query: they count once. Otherwise they are a total, which replaces others.
	Once bool  `json:"o,omitempty"`
	End  int64 `json:"w,omitempty"` // ns since 1970
	// Covers says which results of hosts a total has.
	Covers Coverage `json:"c,omitempty"`
}

// MostBytes is the limit of a message's rows, compressed. NATS' own default is 1 MiB.
const MostBytes = 512 << 10

// EncodeItem returns a header and the rows as one message.
func EncodeItem(h *Header, rows []byte) ([]byte, error) {
	h.Version = Version
	return framed(h, rows)
}

// framed returns a header and what follows it as one message.
func framed(header any, rows []byte) ([]byte, error) {
	head, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 4+len(head)+len(rows))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(head)))
	return append(append(out, head...), rows...), nil
}

// maxParts is the largest number of parts of an item.
const maxParts = 4096

var errMessage = errors.New("the message cannot be read")

// DecodeItem is the reverse of EncodeItem. rows shares the memory of the message.
func DecodeItem(msg []byte) (h *Header, rows []byte, err error) {
	h = &Header{}
	if rows, err = unframed(msg, h); err != nil {
		return nil, nil, err
	}
	numbered := h.Kind >= ItemBegin && h.Kind <= ItemEnd
	switch {
	case h.Version != Version:
		return nil, nil, fmt.Errorf("the host sends version %d of results, not version %d", h.Version, Version)
	case !numbered && h.Kind != ItemBeat, numbered && (h.Seq == 0 || h.Needs >= h.Seq || h.First > h.Seq),
		h.Parts < 0 || h.Parts > maxParts || h.Part < 0 || h.Part >= max(h.Parts, 1):
		return nil, nil, errMessage
	}
	return h, rows, nil
}

// unframed is the reverse of framed.
func unframed(msg []byte, header any) (rows []byte, err error) {
	if len(msg) < 4 {
		return nil, errMessage
	}
	n := binary.LittleEndian.Uint32(msg)
	if uint64(n) > uint64(len(msg)-4) {
		return nil, errMessage
	}
	return msg[4+n:], Decode(msg[4:4+n], header)
}

// Encode encodes the other messages.
func Encode(message any) []byte {
	b, err := json.Marshal(message)
	if err != nil {
		return nil // not reached: every field can be marshalled
	}
	return b
}

// Decode is the reverse of Encode.
func Decode(b []byte, into any) error {
	if err := json.Unmarshal(b, into); err != nil {
		return errMessage
	}
	return nil
}
