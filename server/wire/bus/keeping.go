package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"endoscope/server/wire"
)

// A standing query is kept by one reducer at a time, and all that may keep it have its
// results. KeeperBucket has a key for each query, which says who keeps it. RecordStream has
// its last results, in an order that is the same for all: both are changed by compare and
// set, so that a reducer that was replaced and does not know it changes nothing.

const (
	// RecordsKept is how long a reducer may be away without missing records.
	RecordsKept = 12 * time.Hour
	// mostRecords is how many messages of a query are stored.
	mostRecords = 4096
	// readRecords is how many are read at a time.
	readRecords = 64
)

// Keeper is a value of KeeperBucket. It is not signed: who changes it at the bus delays
// results, and cannot change them.
type Keeper struct {
	Name string `json:"name"` // of the reducer; "": it has stopped, and another one may begin
	// Start distinguishes the starts of a reducer, of which a later one lacks what the one before
	// has merged.
	Start string `json:"start,omitempty"`
}

// ErrMoved is the error of a change whose place another one has taken.
var ErrMoved = errors.New("another reducer has taken over")

// KeeperOf returns who keeps a standing query, and the revision of that. It is 0 if nobody
// does.
func KeeperOf(ctx context.Context, nc *nats.Conn, query string) (k Keeper, revision uint64, err error) {
	m, err := last(ctx, nc, "KV_"+KeeperBucket, keeperSubject(query))
	if err != nil || m == nil {
		return k, 0, err
	}
	return k, m.Sequence, Decode(m.Data, &k)
}

// SetKeeper says who keeps a standing query, in place of a revision. It returns the next one.
func SetKeeper(ctx context.Context, nc *nats.Conn, query string, k Keeper, after uint64) (revision uint64, err error) {
	return replace(ctx, nc, keeperSubject(query), Encode(k), after)
}

func keeperSubject(query string) string { return "$KV." + KeeperBucket + "." + query }

// last returns the last message of a subject; nil: there is none.
func last(ctx context.Context, nc *nats.Conn, stream, subject string) (*jetstream.RawStreamMsg, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	msgs, err := jetstreamext.GetLastMsgsFor(ctx, js, stream, []string{subject})
	if err != nil {
		return nil, err
	}
	for m, err := range msgs {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			return nil, nil
		}
		return m, err
	}
	return nil, nil
}

// replace stores a message after the last one of its subject, whose sequence must be after.
func replace(ctx context.Context, nc *nats.Conn, subject string, data []byte, after uint64) (uint64, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	ack, err := js.Publish(ctx, subject, data, jetstream.WithExpectLastSequencePerSubject(after), jetstream.WithRetryAttempts(0))
	var refused *jetstream.APIError
	switch {
	case errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return 0, ErrMoved
	case err != nil:
		return 0, explained(err)
	}
	return ack.Sequence, nil
}

// Record is a message of RecordStream: a part of a result of a standing query.
type Record struct {
	Number  uint64              `json:"n"` // of the result, from 1
	Window  wire.StandingWindow `json:"w"`
	Columns []wire.Column       `json:"c"`
	Part    int                 `json:"p,omitempty"`
	Parts   int                 `json:"m"`
}

// EncodeRecord returns a part of a result with its rows as one message.
func EncodeRecord(r *Record, rows []byte) ([]byte, error) { return framed(r, rows) }

// DecodeRecord is the reverse of EncodeRecord. rows shares the memory of the message.
func DecodeRecord(msg []byte) (r *Record, rows []byte, err error) {
	r = &Record{}
	if rows, err = unframed(msg, r); err == nil && (r.Number == 0 || r.Part < 0 || r.Parts < 1 || r.Part >= r.Parts || r.Parts > maxParts) {
		err = errMessage
	}
	return r, rows, err
}

// AddRecord stores a message of a query after the last one, whose sequence must be after. It
// returns its own.
func AddRecord(ctx context.Context, nc *nats.Conn, query string, message []byte, after uint64) (uint64, error) {
	return replace(ctx, nc, RecordsOf(query), message, after)
}

// LastRecord returns the sequence of the last message of a query; 0: there is none.
func LastRecord(ctx context.Context, nc *nats.Conn, query string) (uint64, error) {
	m, err := last(ctx, nc, RecordStream, RecordsOf(query))
	if err != nil || m == nil {
		return 0, err
	}
	return m.Sequence, nil
}

// Stored is a message of RecordStream with its sequence.
type Stored struct {
	Sequence uint64
	Data     []byte
}

// Records returns messages of a query that follow one with a sequence, in order. There are
// no more if there are none.
func Records(ctx context.Context, nc *nats.Conn, query string, after uint64) (all []Stored, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	msgs, err := jetstreamext.GetBatch(ctx, js, RecordStream, readRecords, jetstreamext.GetBatchSeq(after+1), jetstreamext.GetBatchSubject(RecordsOf(query)))
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
		all = append(all, Stored{m.Sequence, m.Data})
	}
	return all, nil
}
