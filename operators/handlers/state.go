package handlers

import "strings"

// outputs are the I/O system calls that bring no event: a program writes results, and looks
// for input in what it opened.
var outputs = func() map[string]bool {
	m := map[string]bool{}
	for _, name := range strings.Fields(`write pwrite64 writev pwritev pwritev2 sendto sendmsg sendmmsg sendfile splice tee vmsplice copy_file_range connect
		open openat openat2 creat close fsync fdatasync sync syncfs sync_file_range msync stat fstat lstat newfstatat statx access faccessat faccessat2
		readlink readlinkat getdents getdents64 readahead truncate ftruncate fallocate fadvise64 rename renameat renameat2 unlink unlinkat
		mkdir mkdirat rmdir link linkat symlink symlinkat flock shutdown msgsnd mq_timedsend pread64 preadv preadv2 process_vm_readv process_vm_writev`) {
		m[name] = true
	}
	return m
}()

// StateOf returns the state of a sample from the columns state and syscall of stack_sample.
// An unknown state counts as running.
func StateOf(state, syscall string) State {
	switch state {
	case "WAIT":
		return Wait
	case "IO":
		if outputs[syscall] {
			return Output
		}
		return IO
	case "BLOCKED":
		return Blocked
	}
	return Run
}
