package unharmed

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// program is a source file in testdata. The lines of the comment at its head
// that begin with a word and a colon say how it is built and observed:
//
//	build: FLAGS              a build; each is tested
//	more: FLAGS               a build that is tested under ENDOSCOPE_SOAK
//	library: FILE SOURCE FLAGS  a shared library that lies beside it
//	modules: NAME...          modules to observe besides the executable
//	stacks: WHY               calls run on stacks that are not the threads' own
//	returns: SETTING          of return_probes, because any other shows
type program struct {
	source    string
	builds    []string
	more      []string
	libraries [][]string
	modules   []string
	stacks    bool
	returns   string
}

func (p *program) name() string {
	return strings.TrimSuffix(filepath.Base(p.source), filepath.Ext(p.source))
}

// programs returns the programs in testdata.
func programs(t testing.TB) []*program {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"testdata/*.c*", "testdata/*.rs"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	var out []*program
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p := &program{source: path}
		for line := range strings.Lines(string(text)) {
			comment, ok := strings.CutPrefix(line, "//")
			if !ok {
				break
			}
			word, rest, ok := strings.Cut(strings.TrimSpace(comment), ":")
			if !ok {
				continue
			}
			switch rest = strings.TrimSpace(rest); word {
			case "build":
				p.builds = append(p.builds, rest)
			case "more":
				p.more = append(p.more, rest)
			case "library":
				p.libraries = append(p.libraries, strings.Fields(rest))
			case "modules":
				p.modules = strings.Fields(rest)
			case "returns":
				p.returns = rest
			case "stacks":
				p.stacks = true
			}
		}
		if len(p.builds) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// build is a compiled program in its own folder.
type build struct {
	*program
	flags string
	dir   string
	path  string
	libs  string // folder of copies of its libraries; "": none
}

// observed returns the modules to observe besides the executable: those of the first
// build, and the C library, always with ENDOSCOPE_SOAK.
func (b *build) observed() []string {
	switch {
	case b.libs == "":
		return nil
	case soak() && !slices.Contains(b.modules, libc):
		return append(slices.Clone(b.modules), libc)
	case soak() || b.flags == b.builds[0]:
		return b.modules
	}
	return nil
}

const libc = "libc.so.6"

// compile builds p. Its libraries and its dynamic linker are copies that no other
// process uses, because probes in a file affect all processes that map it.
func (p *program) compile(t testing.TB, flags string) *build {
	t.Helper()
	b := &build{program: p, flags: flags, dir: temporary(t)}
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.libraries {
		args := append([]string{"-shared", "-fPIC", "-o", l[0]}, append(slices.Clone(l[2:]), filepath.Join(data, l[1]))...)
		b.tool(t, "gcc", args...)
	}
	b.path = filepath.Join(b.dir, p.name())
	fields := strings.Fields(flags)
	args := append([]string{"-o", b.path, filepath.Join(data, filepath.Base(p.source))}, fields...)
	var linker []string
	if !slices.Contains(fields, "-static") && !slices.Contains(fields, "-static-pie") {
		if b.libs, err = libraries(); err != nil {
			t.Fatal(err)
		}
		linker = []string{"-Wl,--dynamic-linker=" + filepath.Join(b.libs, "ld.so"), "-Wl,-rpath," + b.libs + ":" + b.dir}
	}
	switch filepath.Ext(p.source) {
	case ".rs":
		for _, l := range linker {
			args = append(args, "-C", "link-arg="+l)
		}
		b.tool(t, "rustc", args...)
	case ".cc":
		b.tool(t, "g++", append(append(args, "-g0"), linker...)...)
	default:
		b.tool(t, "gcc", append(append(args, "-g0"), linker...)...)
	}
	return b
}

// libraries is a folder with copies of the dynamic linker and of the libraries that C
// and C++ programs use.
var libraries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "unharmed-lib-")
	if err != nil {
		return "", err
	}
	copies := map[string]string{"/lib64/ld-linux-x86-64.so.2": "ld.so"}
	for _, name := range []string{"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"} {
		path, err := exec.Command("gcc", "-print-file-name="+name).Output()
		if err != nil {
			return dir, err
		}
		copies[strings.TrimSpace(string(path))] = name
	}
	for from, to := range copies {
		data, err := os.ReadFile(from)
		if err != nil {
			return dir, err
		}
		if err := os.WriteFile(filepath.Join(dir, to), data, 0o755); err != nil {
			return dir, err
		}
	}
	return dir, nil
})

// temporary returns a temporary folder. TempDir is not used because its path contains
// the test's name, and the linker interprets commas in a path.
func temporary(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "unharmed-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (b *build) tool(t testing.TB, name string, args ...string) {
	t.Helper()
	testenv.NeedProgram(t, name)
	cmd := exec.Command(name, args...)
	cmd.Dir = b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// environment returns the environment of the program.
func (b *build) environment() []string {
	env := append(os.Environ(), "LC_ALL=C", "GMON_OUT_PREFIX="+filepath.Join(b.dir, "gmon"))
	if b.libs != "" {
		env = append(env, "LD_LIBRARY_PATH="+b.libs+":"+b.dir)
	}
	return env
}

// outcome is the observable result of a run: its output, how it ended, and the calls
// of counted functions over all processes.
type outcome struct {
	Transcript string
	End        string
	calls      map[string]int64
	took       map[string]interval // of calls of functions that always returned
}

// interval is the duration of calls as measured by the program, inside and around the
// call.
type interval struct{ within, around int64 }

// outcomeOf parses the output of a program.
func outcomeOf(printed []byte, end string) outcome {
	o := outcome{End: end, calls: map[string]int64{}, took: map[string]interval{}}
	var text strings.Builder
	for line := range strings.Lines(string(printed)) {
		f := strings.Fields(line)
		number := func(behind int) int64 { // from the end, since names may contain spaces
			n, _ := strconv.ParseInt(f[len(f)-behind], 10, 64)
			return n
		}
		switch {
		case len(f) >= 3 && f[0] == "calls":
			o.calls[strings.Join(f[1:len(f)-1], " ")] = number(1)
		case len(f) >= 4 && f[0] == "took":
			o.took[strings.Join(f[1:len(f)-2], " ")] = interval{number(2), number(1)}
		default:
			text.WriteString(line)
		}
	}
	o.Transcript = text.String()
	return o
}

// limit bounds the time that an observed program may run: with its own unwinder,
// which is observed too, each exception takes some 10,000 traps.
var limit = func() time.Duration {
	if soak() {
		return 3 * time.Minute
	}
	return 2 * time.Minute
}()

// command returns the command that runs the program for a number of rounds.
func (b *build) command(rounds int) *exec.Cmd {
	cmd := exec.Command(b.path, strconv.Itoa(rounds))
	cmd.Dir, cmd.Env = b.dir, b.environment()
	cmd.WaitDelay = time.Minute
	return cmd
}

// untouched runs the program without observation.
func (b *build) untouched(t testing.TB, rounds int) outcome {
	t.Helper()
	r := b.start(t, rounds)
	return r.end()
}

// running is a running program.
type running struct {
	t       testing.TB
	cmd     *exec.Cmd
	in      io.Closer
	printed chan []byte
	began   chan struct{} // closed when it starts its rounds
}

// start starts the program.
func (b *build) start(t testing.TB, rounds int) *running {
	t.Helper()
	cmd := b.command(rounds)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its children can be ended with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, cmd: cmd, in: in, printed: make(chan []byte, 1), began: make(chan struct{})}
	go func() { r.printed <- readAll(out, r.began) }()
	return r
}

// readAll reads the output of a program, and closes began when the output begins.
func readAll(out io.Reader, began chan struct{}) []byte {
	lines := bufio.NewReader(out)
	line, _ := lines.ReadBytes('\n')
	close(began)
	rest, _ := io.ReadAll(lines)
	return append(line, rest...)
}

// end lets the program finish and waits for it.
func (r *running) end() outcome {
	r.t.Helper()
	r.in.Close()
	end := "exit 0"
	var printed []byte
	select {
	case printed = <-r.printed:
	case <-time.After(limit):
		end = "no end"
		r.t.Logf("the program does not end: %s", stuck(r.cmd.Process.Pid))
		syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
		printed = <-r.printed
	}
	if err := r.cmd.Wait(); err != nil && end == "exit 0" {
		end = err.Error()
	}
	o := outcomeOf(printed, end)
	if b, ok := r.cmd.Stderr.(*bytes.Buffer); ok && b.Len() > 0 {
		o.Transcript += fmt.Sprintf("(standard error: %s)", b)
	}
	return o
}
