// Package store keeps what outlives the engine, a file each: definitions of streams and
// triggers, and models.
//
// Locks are taken in this order; those of one group are never held together. Files are
// written under those of the first group alone.
//
//	Models.writing       while a model is made or dropped
//	Definitions.mu       what is kept, and its files
//
//	Models.mu            models in memory; no file is read under it
//
// It must not know sessions, nor how a definition is made again: it has its text.
package store
