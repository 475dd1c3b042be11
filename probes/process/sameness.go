package process

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FileID is a device number, as unix.Mkdev encodes it, and an inode number.
type FileID struct{ Dev, Inode uint64 }

// MappedID returns the kernel's identity of a file: its superblock's device and
// its inode's number, as shown in maps files and seen by eBPF programs. stat(2)
// often, but not always, returns the same: btrfs and overlayfs report other
// numbers. To find the kernel's, the file is mapped here for a moment.
func MappedID(f *os.File) (FileID, error) {
	page, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return FileID{}, fmt.Errorf("%s cannot be mapped: %w", f.Name(), err)
	}
	defer unix.Munmap(page)
	at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(page))))
	mappings, err := Mappings(os.Getpid())
	if err != nil {
		return FileID{}, err
	}
	for _, m := range mappings {
		if m.Start <= at && at < m.End {
			return FileID{m.Dev, m.Inode}, nil
		}
	}
	return FileID{}, fmt.Errorf("the mapping of %s was not found", f.Name())
}

// isMapped reports whether a file is the file of m. stat is its identity by
// stat(2), and mapped returns its MappedID, which is only called if stat
// differs.
func isMapped(m Mapping, stat FileID, mapped func() (FileID, error)) bool {
	want := FileID{m.Dev, m.Inode}
	if stat == want {
		return true
	}
	id, err := mapped()
	return err == nil && id == want
}
