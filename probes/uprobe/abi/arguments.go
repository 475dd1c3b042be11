package abi

// MaxArgs is how many argument registers there are in the calling conventions.
const MaxArgs = 6
