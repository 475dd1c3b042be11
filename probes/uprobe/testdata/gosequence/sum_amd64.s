#include "textflag.h"

// func sum(p *int, n int) int
TEXT ·sum(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), R14
	MOVQ n+8(FP), CX
	XORQ AX, AX
more:
	ADDQ (R14), AX
	ADDQ $8, R14
	DECQ CX
	JNZ  more
	MOVQ AX, ret+16(FP)
	RET
