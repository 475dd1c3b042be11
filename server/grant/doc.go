// Package grant defines what a session of the engine may do and how much it may use.
// The engine checks this one value when it resolves a statement.
//
// Package access identifies clients and determines their grants. This package must
// not know of certificates, tokens, files of users or the network. A nil *Grant
// permits everything: an engine in the user's own process needs no limits but those
// of the kernel.
//
// A refusal is a *Refusal. It says what is missing, and reveals nothing about files,
// processes or users that the grant hides.
package grant
