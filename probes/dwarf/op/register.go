package op

// Register is an integer register as DWARF numbers those of x86-64 (System V
// ABI, figure 3.36): rax 0, rdx 1, rcx 2, rbx 3, rsi 4, rdi 5, rbp 6, rsp 7, r8 to
// r15, rip 16.
type Register int8

// NoRegister means that there is no register.
const NoRegister Register = -1
