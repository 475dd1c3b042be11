// Package flight serves an engine to clients elsewhere, as an Arrow Flight SQL
// service: any Flight SQL client can execute statements, prepare them and browse
// the streams; ours (client/remote) also gets everything else that a wire.Session
// has.
//
//	                 ┌ session, of a connection or of an ActionSession
//	client ─ gRPC ─► │ GetFlightInfo, DoGet ─► Execute ─► pump ─► record + Frame ─► client
//	                 └ DoAction: questions, Stop, Close, prepared statements
//
// A statement is executed by GetFlightInfo, whose ticket then names its result,
// or at once by DoGet with a wire.Statement for a ticket. A result that nobody
// asks for is closed after ClientTimeout. Results are sent as they come: one
// goroutine takes events from the engine, the call's own makes records of what
// there is. A client that does not read makes it wait, not the engine: see
// wire.Options.Unread.
//
// Sessions end with their connection, or with the ActionSession call that opened
// them: when the client closes, is killed, or does not answer for ClientTimeout.
//
// A connection over which nobody was identified yet is a stranger's: there are few at
// a time, and they have ClientTimeout to say who they are.
//
// Locks: Service.mu (sessions by name), conn.mu and session.mu (results,
// prepared statements) are never held while the engine is called.
//
// It must not know how statements are executed nor who may do what: callers are
// identified by an Access, and what they may do is the engine's to hold to.
package flight
