// Package flight serves an engine to remote clients as an Arrow Flight SQL
// service. Any Flight SQL client can execute statements, prepare them and
// browse the streams. This project's client (client/remote) has access to
// everything else that a wire.Session offers.
//
//	                 ┌ session, of a connection or of an ActionSession
//	client ─ gRPC ─► │ GetFlightInfo, DoGet ─► Execute ─► pump ─► record + Frame ─► client
//	                 └ DoAction: questions, Stop, Close, prepared statements
//
// A statement is executed by GetFlightInfo, whose ticket then names its result,
// or directly by DoGet with a wire.Statement as the ticket. A result that is
// not requested is closed after ClientTimeout. Results are sent as they arrive:
// one goroutine takes events from the engine, and the call's own goroutine
// makes records of those available. A client that does not read makes its call
// wait, not the engine: see wire.Options.Unread.
//
// A session ends with its connection, or with the ActionSession call that
// opened it: when the client closes, is killed, or does not answer for
// ClientTimeout.
//
// A connection without an identified caller is unidentified: the number of
// those is limited, and each has ClientTimeout to identify itself.
//
// Locks: Service.mu (sessions by name), conn.mu and session.mu (results,
// prepared statements) are never held while the engine is called.
//
// It must not know how statements are executed nor who is permitted what: an
// Access identifies callers, and the engine enforces their permissions.
package flight
