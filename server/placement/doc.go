// Package placement executes this site's share of a query that is divided between the
// engine and its client, and moves operators between the two by what they cost.
//
// A Placement belongs to the runner: it needs no locks.
//
// It must not know where rows come from, sessions, or how a client executes its share.
package placement
