package abi

// What a query's programs do (enum in function.bpf.c).
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

// And with values (values.h).
const (
	UseValues = 1 << (25 + iota)
	UseResult
	UseTexts
	KeepTexts
	SendTexts
	SendFrame
)
