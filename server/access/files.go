package access

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockDir locks a directory against other commands that change its files, until unlock.
func lockDir(dir string) (unlock func(), err error) {
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return func() { _ = lock.Close() }, nil
}

// replace replaces a file; readers see the old or the new contents. It keeps the mode and
// the owner of the file; mode is that of a new one. The caller has locked the directory.
func replace(path string, data []byte, mode os.FileMode) error {
	owner := [2]int{-1, -1}
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil {
		mode, owner = os.FileMode(st.Mode&0o777), [2]int{int(st.Uid), int(st.Gid)}
	}
	next := path + ".new"
	_ = os.Remove(next)
	if err := writeNew(next, data, mode); err != nil {
		return err
	}
	if owner[0] >= 0 {
		_ = os.Chown(next, owner[0], owner[1]) // without root the owner stays the caller
	}
	return os.Rename(next, path)
}
