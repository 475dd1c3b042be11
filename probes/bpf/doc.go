// Package bpf holds the programs that run in the kernel, as C source and as
// compiled objects, and the Go types of what they share with user space.
//
// It knows the layout of events and counters, of what tests of calls look at,
// and where aggregates of calls are kept. It must not know expressions, symbols
// or processes: package codegen makes the tests and what folds calls into
// states, package uprobe fills the maps and reads them.
//
// The objects are compiled ahead with bpf2go and committed, so neither building
// nor running Endoscope needs a C compiler. They are relocated against the
// running kernel's types when they are loaded (CO-RE); kernel.h declares the
// few fields they read. After a change of a C file run go generate here, which
// needs clang and the headers of libbpf.
package bpf

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -go-package bpf -target amd64 -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -type counters -type target -type moment -type event -type event_return -type event_names -type event_args -type event_full -type event_receiver -type event_cost -type copied -type taken -type frame -type pending -type goroutine -type owner -type left -type suspended -type here -type elsewhere -type inside -type recorded -type ring -type recall_pool -type firing -type holder -type routine -type operand -type operands -type method_key -type event_method -type texts Function function.bpf.c
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -go-package bpf -target amd64 -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -type life Life life.bpf.c
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -go-package bpf -target amd64 -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -type sample -type taken -type interpreter -type golang -type inside -type elsewhere Stack stack.bpf.c
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -go-package bpf -target amd64 -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -type write -type write_text -type process -type variable -type step -type watchpoint Variable variable.bpf.c
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -go-package bpf -target amd64 -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -type local -type local_texts Local local.bpf.c
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -go-package bpf -target amd64 -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu" -type execution Execution execution.bpf.c
//go:generate go run ./forgetlines function_x86_bpfel.o life_x86_bpfel.o stack_x86_bpfel.o variable_x86_bpfel.o local_x86_bpfel.o execution_x86_bpfel.o
