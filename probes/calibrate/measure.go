package calibrate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Observation is one kind of probe handler.
type Observation struct {
	Kind string // key in the table
	// Attach observes calls of the functions of the program that is running
	// from file. detach is called when the program has ended, and may leave the
	// work to a goroutine.
	Attach func(file *os.File, functions []Function) (detach func(), err error)
}

// limit is the maximum run time of the program, which normally takes
// milliseconds.
const limit = 500 * time.Millisecond

// Measure measures the cost of the observations. It needs the rights to attach
// them, and to execute a memory file.
func Measure(observations []Observation) (Table, error) {
	p := assemble(1 + len(observations)) // the first group is never probed
	file, err := inMemory(p.elf)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var detach []func()
	defer func() {
		for _, f := range detach {
			f()
		}
	}()
	out, err := run(file, len(p.functions)*rounds*8, func() error {
		for i, o := range observations {
			n := len(bodies)
			d, err := o.Attach(file, p.functions[(i+1)*n:(i+2)*n])
			if err != nil {
				return fmt.Errorf("calibrate: %s: %w", o.Kind, err)
			}
			detach = append(detach, d)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	times, err := p.times(out)
	if err != nil {
		return nil, err
	}
	table := prices(times, observations)
	var kinds []string
	for _, o := range observations {
		kinds = append(kinds, o.Kind)
	}
	if !table.complete(kinds) {
		return nil, fmt.Errorf("calibrate: these cannot be prices: %v", table)
	}
	return table, nil
}

// prices returns the medians of the probed loops' times, minus those of the
// loops without probes, per call.
func prices(times [][]float64, observations []Observation) Table {
	table := Table{}
	for i, o := range observations {
		table[o.Kind] = map[string]float64{}
		for j, b := range bodies {
			probed, plain := median(times[(i+1)*len(bodies)+j]), median(times[j])
			table[o.Kind][b.method] = (probed - plain) / float64(b.calls)
		}
	}
	return table
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// run executes the program in file, attaches while it waits, and returns the n
// bytes that it then writes. When it returns the program has ended.
func run(file *os.File, n int, attach func() error) (out []byte, err error) {
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	cmd.Args = []string{"endoscope-calibrate"}
	cmd.Env = []string{}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		// Without the byte the program ends.
		stdin.Close()
		if wait := cmd.Wait(); err == nil && wait != nil {
			err = fmt.Errorf("calibrate: the program ended with %w", wait)
		}
	}()
	if err := attach(); err != nil {
		return nil, err
	}
	defer time.AfterFunc(limit, func() { cmd.Process.Kill() }).Stop()
	if _, err := stdin.Write([]byte{1}); err != nil {
		return nil, err
	}
	out = make([]byte, n)
	if _, err := io.ReadFull(stdout, out); err != nil {
		return nil, fmt.Errorf("calibrate: the program has no output: %w", err)
	}
	return out, nil
}

// inMemory creates an executable file without a name.
func inMemory(content []byte) (*os.File, error) {
	// Linux 6.3 warns without MFD_EXEC, which older kernels reject.
	fd, err := unix.MemfdCreate("endoscope-calibrate", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("endoscope-calibrate", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("calibrate: memfd_create: %w", err)
	}
	w := os.NewFile(uintptr(fd), "endoscope-calibrate")
	defer w.Close()
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	// A file open for writing cannot be executed.
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}
