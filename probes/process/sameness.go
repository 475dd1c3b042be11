package process

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FileID is a device number, as unix.Mkdev encodes it, and an inode's.
type FileID struct{ Dev, Inode uint64 }

// MappedID is how the kernel knows a file: its superblock's device and the
// number of its inode, which maps files tell, and which programs of the kernel
// find where they look. What stat(2) says is often, but not always the same:
// btrfs and overlayfs have numbers of their own for it. To learn the other ones
// the file is mapped here for a moment.
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
	return FileID{}, fmt.Errorf("the mapping of %s is not told", f.Name())
}

// isMapped reports whether a file is the one that m tells of. stat is what
// stat(2) says of it, and mapped asks for its MappedID, which is only done where
// stat says something else.
func isMapped(m Mapping, stat FileID, mapped func() (FileID, error)) bool {
	want := FileID{m.Dev, m.Inode}
	if stat == want {
		return true
	}
	id, err := mapped()
	return err == nil && id == want
}
