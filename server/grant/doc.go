// Package grant is what a session of the engine may do, and what it may use: the
// one value that the engine checks, at the time at which it resolves a statement.
//
// Who a client is, and which grant that gives, is package access's; this one
// must not know of certificates, tokens, files of users or the network. A nil
// *Grant is everything: the engine that runs in the user's own process needs no
// other limits than those of the kernel.
//
// A refusal is a *Refusal. It says what is missing in the user's words and tells
// nothing of files, processes or users that the grant hides.
package grant
