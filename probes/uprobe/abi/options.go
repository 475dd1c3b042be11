package abi

// Options of a query's programs (enum in function.bpf.c).
const (
	AtReturn = 1 << iota
	UseArgs
	UseNames
	LateNames
	UseDepth
	SendArgs
	SendNames
	Pair
	OnlyPIDs
	OnlyComms
	OnlyExes
	Sequence
	Before517
	Gated
	Guarded
	Standby
	SendReceiver
	SendGoroutine
	SendCost
	UseSelf
	SendSelf
	SendCaller
	SendStack
	Allocates
	Frees
)

// Options of queries that read values (values.h).
const (
	UseValues = 1 << (25 + iota)
	UseResult
	UseTexts
	KeepTexts
	SendTexts
	SendFrame
)
