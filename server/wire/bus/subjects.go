package bus

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Buckets and streams.
const (
	QueryBucket     = "endoscope_queries"
	HostBucket      = "endoscope_hosts"
	HeartbeatStream = "endoscope_heartbeats"
	KeeperBucket    = "endoscope_keepers"
	RecordStream    = "endoscope_records"
)

// Subjects, each followed by a token. AllHeartbeats and the like match every token.
const (
	queryPrefix     = "endoscope.query."
	leasePrefix     = "endoscope.lease."
	heartbeatPrefix = "endoscope.heartbeat."
	hostPrefix      = "endoscope.host."
	resultPrefix    = "endoscope.result."
	partPrefix      = "endoscope.part."
	recordPrefix    = "endoscope.record."

	AllQueries    = queryPrefix + "*.*"
	AllLeases     = leasePrefix + "*"
	AllHeartbeats = heartbeatPrefix + "*"
	AllHosts      = hostPrefix + "*"
)

// A query's key in the bucket begins with a token of one character, so that a bucket of
// more queries than one direct get returns is read in parts.
const keyDigits = "0123456789abcdef"

// QueryKey returns the key of a query in QueryBucket.
func QueryKey(query string) string { return query[:1] + "." + query }

// standingKeys is the first token of the keys of standing queries.
const standingKeys = "s"

// StandingKey returns the key of a standing query in QueryBucket.
func StandingKey(query string) string { return standingKeys + "." + query }

// tombstoneKeys is the first token of the keys of tombstones, which is no digit.
const tombstoneKeys = "x"

// TombstoneKey returns the key of the tombstone of a standing query in QueryBucket: a Lease
// that says Over. It is kept until the query expires.
func TombstoneKey(query string) string { return tombstoneKeys + "." + query }

// reducerPrefix begins the names of reducers on the bus. The name of a host that is enrolled
// has no slash.
const reducerPrefix = "reducer/"

// ReducerName returns the name on the bus of a reducer, where hosts and reducers are
// addressed in the same way.
func ReducerName(name string) string { return reducerPrefix + name }

// Reducer returns the name of a reducer by its name on the bus; false: it is a host.
func Reducer(host string) (name string, ok bool) { return strings.CutPrefix(host, reducerPrefix) }

// LeaseSubject returns the subject of a query's leases.
func LeaseSubject(query string) string { return leasePrefix + query }

// HeartbeatSubject returns the subject of a host's heartbeats.
func HeartbeatSubject(host string) string { return heartbeatPrefix + Token(host) }

// HostSubject returns the subject of messages to a host.
func HostSubject(host string) string { return hostPrefix + Token(host) }

// ResultSubject returns the subject of a host's result of a query.
func ResultSubject(query, host string) string { return resultPrefix + query + "." + Token(host) }

// ResultsOf matches the results of all hosts.
func ResultsOf(query string) string { return resultPrefix + query + ".*" }

// PartSubject returns the subject of a host's result of a query that reducers merge.
func PartSubject(query string, shard int, host string) string {
	return partPrefix + query + "." + strconv.Itoa(shard) + "." + Token(host)
}

// PartsOf matches the results of all hosts of a shard.
func PartsOf(query string, shard int) string {
	return partPrefix + query + "." + strconv.Itoa(shard) + ".*"
}

// PartsOfShard matches the results of all hosts of a shard of all queries.
func PartsOfShard(shard int) string { return partPrefix + "*." + strconv.Itoa(shard) + ".*" }

// QueryOfPart returns the query of a subject of PartSubject.
func QueryOfPart(subject string) string {
	query, _, _ := strings.Cut(strings.TrimPrefix(subject, partPrefix), ".")
	return query
}

// PartsOfHost matches the results of a host of all queries that reducers merge. AllParts
// matches those of all hosts.
func PartsOfHost(host string) string { return partPrefix + "*.*." + Token(host) }

// AllParts matches the results of all hosts of queries that reducers merge.
const AllParts = partPrefix + "*.*.*"

// ShardOf returns the shard of a host, of so many.
func ShardOf(host string, shards int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	return int(h.Sum32() % uint32(shards))
}

// ShardLease returns the key in KeeperBucket of the lease of a shard, of so many. Its value is
// a Keeper, and the revision at which a reducer has taken it is the epoch of what that sends.
func ShardLease(shard, shards int) string { return fmt.Sprintf("shard-%d-%d", shards, shard) }

// RecordsOf returns the subject of the records of a standing query.
func RecordsOf(query string) string { return recordPrefix + query }

// Token returns a host's name as a token of a subject, which is a key of a bucket, too:
// other bytes than letters, digits, - and _ are written as =XX.
func Token(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}
