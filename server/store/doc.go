// Package store stores what outlives the engine, one file each: definitions of
// streams, triggers and exports, and models.
//
// Locks are taken in this order; those of one group are never held together. Files are
// written under those of the first group alone.
//
//	Models.writing       while a model is created or dropped
//	Definitions.mu       the definitions, and their files
//
//	Models.mu            models in memory; no file is read under it
//
// It must not know sessions, nor how a definition is restored from its text.
package store
