// Package access identifies clients and determines what each user may do, by
// certificates, tokens, local user ids, and the file of users.
//
//	connection ─► TLS (client certificate) │ unix socket, loopback (user id)
//	call ───────► Authority.Identify: certificate, token or user id ─► wire.User
//	session ────► Guard.NewSession: grant.Grant of that user ─► Engine.As(grant)
//
// It must not know statements, plans or probes: the engine enforces a grant
// (package grant, server/permit.go).
//
// # Threat model
//
// The daemon has capabilities to read and change any process of the machine. It
// must protect the machine's processes and files, and what other users observe and
// have defined, against these:
//
//   - Attackers on the network between client and server. Off the loopback all
//     traffic is TLS 1.3. The server authenticates by a certificate of the
//     installation's own CA, and a client by a certificate or a token. Plaintext off
//     the loopback requires a flag that names the risk.
//   - Clients that can connect but are not users. Nothing is executed, opened or
//     listed before Identify has identified the caller. Messages are bounded in size.
//     A refusal does not reveal whether a user or a token exists. Tokens are 256
//     random bits, so guessing needs no throttle, and they are stored as a plain
//     SHA-256: the slow hashes that passwords need would only make every call
//     expensive. They are compared in constant time.
//   - Users who access what they may not see: other users' processes, files outside
//     the granted directories, addresses that only the server can reach (WEBHOOK), and
//     queries, triggers and statements of others. Other users' processes do not exist
//     for them. The rule is the kernel's rule for ptrace. It is applied where targets
//     are resolved, and again by the eBPF programs at each event, since a process can
//     execute a set-user-ID program.
//   - Users who exhaust resources: sessions, queries, probes, events per second and
//     memory are limited per user, whatever the number of connections. If a client
//     does not read or does not answer, its rows are dropped and its queries ended.
//     Probes with a cost for other users' processes require a grant.
//   - Users with modified clients. A client may execute part of a query
//     (wire.Splitter): the server plans it, and the client sends nothing but the
//     statement. Permissions are checked by acquisitions, which stay at the server.
//     The client may read rows that the statement itself would have filtered out.
//   - Local users, by the socket. A unix socket reveals their id (SO_PEERCRED), and
//     so does the kernel's table for a connection over the loopback. Root is the
//     machine's administrator, and the daemon's too.
//
// Out of scope: the daemon's own user and root; readers of ca.key, or of a client's
// key or token; a program run by root that forwards other users' connections to the
// loopback (listen on a unix socket then, or with TLS); granted directories that
// their users can change on the server; actions of an admin. A user with the role
// trace reads the memory of the processes that they may observe, as with a debugger.
// Timing reveals the load of the machine.
//
// A user removed from the file and a revoked token are refused from the next call
// on, and their sessions end within a second or two. So is a certificate that is revoked
// or expires, whose connections are closed. The user's triggers stay: they belong to the
// user, who may have other certificates. Remove the user from the file to end them.
package access
