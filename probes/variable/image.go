package variable

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/process"
)

// image identifies what a process executes: pid and start time stay the same at
// execve(2), but its variables do not.
//
// It consists of the 16 random bytes that the kernel puts on the stack of every
// program (AT_RANDOM, create_elf_tables in fs/binfmt_elf.c), their address, and
// the file. A forked child has the same image until it executes something.
type image struct {
	at     uint64 // address of the random bytes
	random [16]byte
	exe    process.FileID // zero: unknown
}

const atRandom = 25 // AT_RANDOM (include/uapi/linux/auxvec.h)

// errNoImage is returned for a process that is in execve, or has ended.
var errNoImage = errors.New("it executes no program at present")

// imageOf returns the image of a process.
func imageOf(pid int) (im image, err error) {
	auxv, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/auxv")
	if err != nil {
		return im, errNoImage
	}
	var ok bool
	if im.at, ok = auxiliary(auxv, atRandom); !ok {
		return im, errNoImage
	}
	if err := readMemory(pid, im.random[:], im.part()); err != nil {
		return im, errNoImage
	}
	im.exe = exeOf(pid)
	return im, nil
}

// loadedImage is imageOf of a process that has an executable. One in the middle of execve(2) has
// no image yet although its parent already knows that this succeeded: that is waited for.
func loadedImage(pid int) (im image, err error) {
	for deadline := time.Now().Add(process.ExecPatience); ; time.Sleep(time.Millisecond) {
		if im, err = imageOf(pid); err == nil || time.Now().After(deadline) {
			return im, err
		}
		if _, runs := process.Lookup(pid); !runs {
			return im, err
		}
	}
}

// exeOf returns the executable of a process; zero if its leader has ended.
func exeOf(pid int) (id process.FileID) {
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid)+"/exe", &st) == nil {
		id = process.FileID{Dev: st.Dev, Inode: st.Ino}
	}
	return id
}

// auxiliary returns a value of the auxiliary vector. Its numbers have 8 bytes,
// or 4 in a 32-bit process.
func auxiliary(b []byte, key uint64) (uint64, bool) {
	for i := 0; i+16 <= len(b); i += 16 {
		if binary.LittleEndian.Uint64(b[i:]) == key {
			return binary.LittleEndian.Uint64(b[i+8:]), true
		}
	}
	for i := 0; i+8 <= len(b); i += 8 {
		if uint64(binary.LittleEndian.Uint32(b[i:])) == key {
			value := uint64(binary.LittleEndian.Uint32(b[i+4:]))
			return value, value != 0
		}
	}
	return 0, false
}

// is reports whether these are the image's random bytes. A program may have
// cleared them, as Go's runtime does (randinit in runtime/rand.go).
func (im *image) is(random [16]byte) bool {
	return random == im.random || random == [16]byte{}
}

func (im *image) part() unix.RemoteIovec {
	return unix.RemoteIovec{Base: uintptr(im.at), Len: len(im.random)}
}

// runs reports whether a process still executes the image. If its memory cannot
// be read because its leader has ended before its other threads, it does:
// execve would have made a new leader.
func (im *image) runs(pid int) bool {
	var random [16]byte
	err := readMemory(pid, random[:], im.part())
	if err == nil && !im.is(random) || errors.Is(err, unix.EFAULT) {
		return false
	}
	exe := exeOf(pid)
	return exe == im.exe || exe == process.FileID{} || im.exe == process.FileID{}
}

// read reads memory of a process. It returns nil if part of it is unreadable,
// or if the process executes another image: the random bytes are read in the
// same call, which uses one address space for all parts (process_vm_rw_core in
// mm/process_vm_access.c).
func (im *image) read(pid int, addr uint64, n int) []byte {
	if n <= 0 {
		return nil
	}
	b := make([]byte, n+len(im.random))
	if readMemory(pid, b, unix.RemoteIovec{Base: uintptr(addr), Len: n}, im.part()) != nil || !im.is([16]byte(b[n:])) {
		return nil
	}
	return b[:n:n]
}

// readMemory fills b with parts of the memory of a process.
func readMemory(pid int, b []byte, parts ...unix.RemoteIovec) error {
	got, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}, parts, 0)
	if err == nil && got != len(b) {
		err = unix.EFAULT
	}
	return err
}
