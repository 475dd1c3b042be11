package variable

import (
	"encoding/binary"
	"os/exec"
	"testing"

	"endoscope/probes/testenv"
)

// The auxiliary vector is read for 64-bit and 32-bit processes.
func TestAuxiliary(t *testing.T) {
	var wide, narrow []byte
	for _, v := range []uint64{16, 1, 25, 77, 0, 0} {
		wide = binary.LittleEndian.AppendUint64(wide, v)
		narrow = binary.LittleEndian.AppendUint32(narrow, uint32(v))
	}
	for _, c := range []struct {
		name string
		b    []byte
		want uint64
	}{{"wide", wide, 77}, {"narrow", narrow, 77}, {"cut off", wide[:24], 0}, {"of another program yet", make([]byte, 320), 0}, {"empty", nil, 0}} {
		if got, ok := auxiliary(c.b, atRandom); got != c.want || ok != (c.want != 0) {
			t.Errorf("%s: %d, %v", c.name, got, ok)
		}
	}
}

// After execve a process has another image, even with the same file, and reads
// for the old one fail.
func TestImage(t *testing.T) {
	testenv.NeedRoot(t)
	program := testenv.CompileC(t, "testdata/vars.c", "-O1", "-pthread")
	r := run(t, program)
	first, err := imageOf(r.pid)
	if err != nil {
		t.Fatal(err)
	}
	r.tell(t, "a1")
	if !first.runs(r.pid) || len(first.read(r.pid, first.at, 16)) != 16 {
		t.Error("the image is told to be another one")
	}
	r.tell(t, "e"+program)
	second, err := imageOf(r.pid)
	if err != nil {
		t.Fatal(err)
	}
	if first.runs(r.pid) || !second.runs(r.pid) || first.exe != second.exe {
		t.Errorf("%v became %v", first, second)
	}
	if b := first.read(r.pid, second.at, 16); b != nil {
		t.Errorf("%x is read of another image", b)
	}
}

// A program that has just been started is in the middle of exec for a moment, in which it has no
// image.
func TestLoadedImageOfNewProcess(t *testing.T) {
	testenv.NeedRoot(t)
	cat := testenv.NeedProgram(t, "cat")
	for range 200 {
		testenv.Once(t, func() error { // a program without a processor stays there
			cmd := exec.Command(cat, "/dev/zero")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_, err := loadedImage(cmd.Process.Pid)
			cmd.Process.Kill()
			cmd.Wait()
			return err
		})
	}
}
