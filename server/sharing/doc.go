// Package sharing lets queries with the same acquisition use one source. To its
// query a Part is the source; a share is the sink of the source that acquires
// for all its parts.
//
// Locks are taken in this order; those of one group are never held together.
//
//	rounds.working       while parts join, end or collect
//
//	share.life           while parts start or end: Start, Divide and Stop
//
//	rounds.turn          the next round
//	Shares.mu            acquisitions by key
//
//	share.mu             while a shared source delivers; taken under Shares.mu, too. Sinks
//	                     are called under it
//
// It must not know queries except by their ids, nor what is acquired.
package sharing
