#include "textflag.h"

#define PAGE 4096
#define WORDS 64 // a g has fewer
#define SYS_mprotect 10
#define READ_WRITE 3

#define PROTECT(protection) \
	MOVQ R12, DI         \
	MOVQ $PAGE, SI       \
	MOVQ protection, DX  \
	MOVL $SYS_mprotect, AX \
	SYSCALL

// func pretend(page unsafe.Pointer, before, inside int)
TEXT ·pretend(SB), NOSPLIT, $8-24
	MOVQ R14, own-8(SP)
	MOVQ page+0(FP), R12
	MOVQ before+8(FP), R13
	MOVQ inside+16(FP), R15
	MOVQ R14, SI
	MOVQ R12, DI
	MOVQ $WORDS, CX
	REP; MOVSQ
	MOVQ R12, R14
	MOVQ R14, (TLS)
	CALL ·outer(SB)
	PROTECT($READ_WRITE)
	MOVQ own-8(SP), R14
	MOVQ R14, (TLS)
	RET

TEXT ·outer(SB), NOSPLIT, $8-0
	PROTECT(R13)
	CALL ·inner(SB)
	RET

TEXT ·inner(SB), NOSPLIT, $0-0
	PROTECT(R15)
	RET
