package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// isMapped identifies a file by its stat identity and by its kernel identity.
func TestIsMapped(t *testing.T) {
	m := Mapping{Dev: 41, Inode: 7}
	for _, c := range []struct {
		name         string
		stat, mapped FileID
		err          error
		same, asked  bool
	}{
		{"ext4", FileID{41, 7}, FileID{41, 7}, nil, true, false},
		{"btrfs: a device for each subvolume", FileID{43, 7}, FileID{41, 7}, nil, true, true},
		{"overlayfs: a device for each layer", FileID{43, 9}, FileID{41, 7}, nil, true, true},
		{"another file of this number", FileID{43, 7}, FileID{42, 7}, nil, false, true},
		{"another file of this device", FileID{41, 8}, FileID{41, 8}, nil, false, true},
		{"not to be mapped", FileID{43, 7}, FileID{41, 7}, errors.New("no"), false, true},
	} {
		asked := false
		same := isMapped(m, c.stat, func() (FileID, error) { asked = true; return c.mapped, c.err })
		if same != c.same || asked != c.asked {
			t.Errorf("%s: %v, asked %v", c.name, same, asked)
		}
	}
}

// On an overlay whose layers are on another file system, as in containers, stat
// reports another device than maps: files are found by the numbers in maps, and
// no other file is accepted.
func TestOverlayFile(t *testing.T) {
	sleep := testenv.NeedProgram(t, "sleep")
	dir := testenv.Overlay(t)
	path := filepath.Join(dir, "sleep")
	testenv.CopyFile(t, sleep, path)
	cmd := exec.Command(path, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	var m Mapping
	for m.Path != path {
		list, err := Modules(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			if x.Path == path {
				m = x
			}
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if st.Dev == m.Dev {
		t.Fatal("the overlay's devices are one")
	}
	f, err := OpenExe(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if id, err := MappedID(f); err != nil || id != (FileID{m.Dev, m.Inode}) {
		t.Errorf("%+v, %v; the process has %+v", id, err, m)
	}
	root, err := unix.Open("/proc/self", unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	found, err := openInRoot(root, m) // without map_files, which needs more rights
	if err != nil {
		t.Fatal(err)
	}
	found.Close()
	// Another file with this name is rejected.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	testenv.CopyFile(t, sleep, path)
	if found, err := openInRoot(root, m); err == nil {
		found.Close()
		t.Error("another file was taken for the one mapped")
	}
}
