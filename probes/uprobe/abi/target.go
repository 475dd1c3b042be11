package abi

// Kinds of bpf.FunctionTarget.
const (
	TargetPID = iota + 1
	TargetComm
	TargetExe
	TargetUser
	TargetOwner
	TargetGroup
	TargetRoot
	TargetCgroup
)
