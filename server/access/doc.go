// Package access says who a client is, and what that user may do: certificates,
// tokens, users of this machine, and the file that lists who may do what.
//
//	connection ─► TLS (client certificate) │ unix socket, loopback (user id)
//	call ───────► Authority.Identify: certificate, token or user id ─► wire.User
//	session ────► Guard.NewSession: grant.Grant of that user ─► Engine.As(grant)
//
// It must not know statements, plans or probes: what a grant means is the
// engine's to hold to (package grant, server/permit.go).
//
// # Threat model
//
// The daemon holds capabilities that read and change any process of the machine.
// What is defended is the machine's processes and files, and what other users
// observe and have defined, against these:
//
//   - Whoever is on the network between client and server. Off the loopback
//     everything is TLS 1.3; the server proves itself by a certificate of the
//     installation's own CA, and a client by one, or by a token. Plaintext off the
//     loopback takes a flag that says so.
//   - Whoever can connect, but is no user. Nothing is executed, opened or listed
//     before Identify has said who calls; messages are bounded in size; a refusal
//     says neither whether a user nor whether a token exists. Tokens are 256 random
//     bits, so that guessing them needs no throttle, and a plain SHA-256 keeps them
//     at rest: the slow hashes that passwords need would only make every call dear.
//     They are compared in constant time.
//   - Users against what they may not see: other users' processes (they do not
//     exist for them: the rule is the kernel's of ptrace, is applied where targets
//     are resolved, and again by the eBPF programs at each event, since a process
//     can execute a set-user-ID program), files outside the directories granted,
//     addresses that the server can reach and they cannot (WEBHOOK), queries,
//     triggers and statements of others.
//   - Users against what they may not use up: sessions, queries, probes, events a
//     second and memory are limited by user, whatever the number of connections;
//     a client that does not read, or does not answer, has rows dropped, and its
//     queries ended. Probes that other users' processes would pay for take a grant.
//   - Users against what is asked of their clients. A client may execute a part of a
//     query (wire.Splitter): the server plans it, and is sent nothing of it but the
//     statement. Who may see what is tested by acquisitions, which stay at the server;
//     what the statement itself leaves out, its author may read.
//   - Users of the machine, by the socket. A unix socket tells their id
//     (SO_PEERCRED), and so does the kernel's table for a connection over the
//     loopback. Root is the machine's admin, and is the daemon's, too.
//
// Not defended: the daemon's own user and root; whoever can read ca.key, or a
// client's key or token; a program run by root that forwards connections of
// others to the loopback (listen at a unix socket then, or with TLS); directories
// granted for files that those users can change on the server; what an admin
// does. A user with the role trace reads the memory of the processes that they may
// observe, as with a debugger. Timing tells how busy the machine is.
//
// Who is taken out of the file, and tokens that are revoked, are refused from the
// next call on, and their sessions end within a second or two. Certificates have no
// list of revocation: take the user out of the file, or make a new CA.
package access
