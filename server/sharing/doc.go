// Package sharing gives queries that acquire the same one source for it. To its query a
// Part is the source; a share is the sink of the source that acquires for all its parts.
//
// Locks are taken in this order; those of one group are never held together.
//
//	share.life           while a part begins or ends: Start, Divide and Stop
//	rounds.working       while a source collects
//
//	rounds.turn          which round is next
//	Shares.mu            acquisitions by key
//
//	share.mu             while a shared source gives; taken under Shares.mu, too. Sinks
//	                     are called under it
//
// It must not know queries but by their numbers, nor what is acquired.
package sharing
