// Package sharing lets queries with the same acquisition use one source. To its
// query a Part is the source; a share is the sink of the source that acquires
// for all its parts.
//
// Locks are taken in this order; those of one group are never held together.
//
//	share.life           while a part starts or ends: Start, Divide and Stop
//	rounds.working       while a source collects
//
//	rounds.turn          the next round
//	Shares.mu            acquisitions by key
//
//	share.mu             while a shared source delivers; taken under Shares.mu, too. Sinks
//	                     are called under it
//
// It must not know queries except by their ids, nor what is acquired.
package sharing
