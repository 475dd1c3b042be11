package calibrate

import (
	"bytes"
	stdelf "debug/elf"
	"encoding/binary"
	"fmt"

	"endoscope/probes/codesite"
)

// Function is one of the program's functions, which exist only to be probed.
// Offsets are in its file.
type Function struct {
	Method string // of both instructions
	Entry  uint64 // its first instruction
	Exit   uint64 // its second, after which it returns without a branch
	// ExitDepth is the distance from the stack pointer up to the return address
	// at Exit, in bytes.
	ExitDepth int64
}

// body is a function's code: two instructions to probe and code that undoes
// their effect.
type body struct {
	method string
	probed []byte // each of the two
	depth  int64
	rest   []byte
	calls  int // in one loop
}

// Loops are short where calls are expensive, and long enough for a clock that
// takes 0.1 us to read. If the kernel steps what others emulate, or is slow,
// all take longer but none too long.
var bodies = []body{
	{method: codesite.Emulated, probed: []byte{0x55}, depth: 8, rest: []byte{0x5d, 0x5d, 0xc3}, calls: 16}, // push %rbp
	{method: codesite.Nop, probed: []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}, rest: []byte{0xc3}, calls: 16},    // nopl 0(%rax,%rax,1)
	{method: codesite.Stepped, probed: []byte{0x89, 0xff}, rest: []byte{0xc3}, calls: 4},                   // mov %edi,%edi
}

// rounds is how often every loop runs, in turns: a disturbance then affects one
// of a loop's times, not most of them.
const rounds = 15

// program is an x86-64 executable that waits for a byte on its standard input,
// calls the functions of each group, and writes how long each loop took to its
// standard output: rounds × functions × 8 bytes, in ns of its processor time.
// It ends if there is no byte.
type program struct {
	elf       []byte
	functions []Function // group by group, one of each body
}

const (
	baseAddress  = 0x400000
	codeOffset   = 128 // after the ELF header and one program header
	functionsAt  = 32  // alignment: no instruction crosses a line of the cache
	sysRead      = 0
	sysWrite     = 1
	sysClock     = 228 // clock_gettime
	sysExit      = 60
	threadCPU    = 3  // CLOCK_THREAD_CPUTIME_ID excludes other processes' work
	timespecSize = 16 // at the stack pointer; the times are above
)

// assemble builds the program with a number of groups of functions.
func assemble(groups int) program {
	var p program
	var a assembler
	for range groups {
		for _, b := range bodies {
			a.align(functionsAt)
			entry := codeOffset + uint64(len(a.code))
			p.functions = append(p.functions, Function{Method: b.method, Entry: entry, Exit: entry + uint64(len(b.probed)), ExitDepth: b.depth})
			a.emit(b.probed...)
			a.emit(b.probed...)
			a.emit(b.rest...)
		}
	}
	size := rounds * len(p.functions) * 8

	// clock returns the processor time in rax, in ns. It is called, so that the
	// timespec is 8 bytes above its stack pointer.
	a.align(functionsAt)
	clock := len(a.code)
	a.emit(0xbf).imm32(threadCPU)        // mov $threadCPU, %edi
	a.emit(0x48, 0x8d, 0x74, 0x24, 8)    // lea 8(%rsp), %rsi
	a.emit(0xb8).imm32(sysClock)         // mov $sysClock, %eax
	a.emit(0x0f, 0x05)                   // syscall
	a.emit(0x48, 0x69, 0x44, 0x24, 8)    // imul $1e9, 8(%rsp), %rax
	a.imm32(1_000_000_000)               //
	a.emit(0x48, 0x03, 0x44, 0x24, 0x10) // add 16(%rsp), %rax
	a.emit(0xc3)                         // ret

	a.align(functionsAt)
	start := len(a.code)
	a.emit(0x48, 0x81, 0xec).imm32(timespecSize + size) // sub $..., %rsp
	a.emit(0x31, 0xff)                                  // xor %edi, %edi
	a.emit(0x48, 0x89, 0xe6)                            // mov %rsp, %rsi
	a.emit(0xba).imm32(1)                               // mov $1, %edx
	a.emit(0xb8).imm32(sysRead)                         // mov $sysRead, %eax
	a.emit(0x0f, 0x05)                                  // syscall
	a.emit(0x48, 0xff, 0xc8)                            // dec %rax
	a.emit(0x0f, 0x85)                                  // jne exit
	orphan := a.hole32()
	a.emit(0x4c, 0x8d, 0x64, 0x24, timespecSize) // lea timespecSize(%rsp), %r12
	a.emit(0x41, 0xbd).imm32(rounds)             // mov $rounds, %r13d
	round := len(a.code)
	for i, f := range p.functions {
		a.call(clock)
		a.emit(0x49, 0x89, 0xc6)                        // mov %rax, %r14
		a.emit(0xbb).imm32(bodies[i%len(bodies)].calls) // mov $calls, %ebx
		loop := len(a.code)                             //
		a.call(int(f.Entry) - codeOffset)               //
		a.emit(0xff, 0xcb)                              // dec %ebx
		a.emit(0x75, byte(int8(loop-(len(a.code)+2))))  // jne loop
		a.call(clock)                                   //
		a.emit(0x4c, 0x29, 0xf0)                        // sub %r14, %rax
		a.emit(0x49, 0x89, 0x04, 0x24)                  // mov %rax, (%r12)
		a.emit(0x49, 0x83, 0xc4, 8)                     // add $8, %r12
	}
	a.emit(0x41, 0xff, 0xcd) // dec %r13d
	a.emit(0x0f, 0x85)       // jne round
	a.patch32(a.hole32(), round)
	a.emit(0xbf).imm32(1)                        // mov $1, %edi
	a.emit(0x48, 0x8d, 0x74, 0x24, timespecSize) // lea timespecSize(%rsp), %rsi
	a.emit(0xba).imm32(size)                     // mov $size, %edx
	a.emit(0xb8).imm32(sysWrite)                 // mov $sysWrite, %eax
	a.emit(0x0f, 0x05)                           // syscall
	a.patch32(orphan, len(a.code))
	a.emit(0x31, 0xff)          // exit: xor %edi, %edi
	a.emit(0xb8).imm32(sysExit) // mov $sysExit, %eax
	a.emit(0x0f, 0x05)          // syscall
	p.elf = executable(a.code, start)
	return p
}

// executable returns a static ELF file of one segment that starts at byte start
// of code.
func executable(code []byte, start int) []byte {
	var b bytes.Buffer
	size := uint64(codeOffset + len(code))
	h := stdelf.Header64{
		Type: uint16(stdelf.ET_EXEC), Machine: uint16(stdelf.EM_X86_64), Version: uint32(stdelf.EV_CURRENT),
		Entry: baseAddress + codeOffset + uint64(start), Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	copy(h.Ident[:], stdelf.ELFMAG)
	h.Ident[stdelf.EI_CLASS], h.Ident[stdelf.EI_DATA], h.Ident[stdelf.EI_VERSION] = byte(stdelf.ELFCLASS64), byte(stdelf.ELFDATA2LSB), byte(stdelf.EV_CURRENT)
	// Writing to a bytes.Buffer cannot fail.
	_ = binary.Write(&b, binary.LittleEndian, h)
	_ = binary.Write(&b, binary.LittleEndian, stdelf.Prog64{
		Type: uint32(stdelf.PT_LOAD), Flags: uint32(stdelf.PF_R | stdelf.PF_X), Vaddr: baseAddress, Paddr: baseAddress,
		Filesz: size, Memsz: size, Align: 4096,
	})
	b.Write(make([]byte, codeOffset-b.Len()))
	b.Write(code)
	return b.Bytes()
}

// times parses what the program wrote: by function, the time of each round.
func (p program) times(out []byte) ([][]float64, error) {
	if len(out) != rounds*len(p.functions)*8 {
		return nil, fmt.Errorf("calibrate: the program wrote %d bytes", len(out))
	}
	times := make([][]float64, len(p.functions))
	for r := range rounds {
		for f := range p.functions {
			ns := binary.LittleEndian.Uint64(out[8*(r*len(p.functions)+f):])
			times[f] = append(times[f], float64(ns))
		}
	}
	return times, nil
}

// assembler collects code. Labels are offsets in it.
type assembler struct{ code []byte }

func (a *assembler) emit(b ...byte) *assembler {
	a.code = append(a.code, b...)
	return a
}

func (a *assembler) imm32(v int) { a.code = binary.LittleEndian.AppendUint32(a.code, uint32(v)) }

// align pads with int3, which is never executed.
func (a *assembler) align(n int) {
	for len(a.code)%n != 0 {
		a.emit(0xcc)
	}
}

// hole32 reserves space for the offset to a label.
func (a *assembler) hole32() (at int) {
	at = len(a.code)
	a.imm32(0)
	return at
}

func (a *assembler) patch32(at, label int) {
	binary.LittleEndian.PutUint32(a.code[at:], uint32(label-(at+4)))
}

func (a *assembler) call(label int) {
	a.emit(0xe8)
	a.patch32(a.hole32(), label)
}
