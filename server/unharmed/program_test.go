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

// programs are those in testdata.
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

// build is a program that was built, in a folder of its own.
type build struct {
	*program
	flags string
	dir   string
	path  string
	libs  string // folder of copies of the libraries that it loads, "" if none
}

// observed are the modules to observe besides the executable: of the first build,
// and the C library always if there is time.
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

// compile builds p. Its libraries are copies that no other process uses, and so
// is its dynamic linker: probes in a file are in all processes that use it.
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

// libraries is a folder with copies of the dynamic linker and of the libraries
// that programs of C and C++ use.
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

// temporary is a folder of the test's. Not TempDir, which has the test's name in
// its own: commas in a path mean something to the linker.
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

// environment is what the program runs with.
func (b *build) environment() []string {
	env := append(os.Environ(), "LC_ALL=C", "GMON_OUT_PREFIX="+filepath.Join(b.dir, "gmon"))
	if b.libs != "" {
		env = append(env, "LD_LIBRARY_PATH="+b.libs+":"+b.dir)
	}
	return env
}

// outcome is what can be seen of a run: what was printed, how it ended, and the
// calls of counted functions, all processes together.
type outcome struct {
	Transcript string
	End        string
	calls      map[string]int64
	took       map[string]interval // of calls of functions that always returned
}

// interval is how long calls took, as the program saw it from within and from
// outside.
type interval struct{ within, around int64 }

// outcomeOf reads what a program printed.
func outcomeOf(printed []byte, end string) outcome {
	o := outcome{End: end, calls: map[string]int64{}, took: map[string]interval{}}
	var text strings.Builder
	for line := range strings.Lines(string(printed)) {
		f := strings.Fields(line)
		number := func(behind int) int64 { // from the end: names may have spaces
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

// limit bounds how long a program may run, observed: with an unwinder of its own
// that is observed, too, each exception takes some 10,000 traps.
var limit = func() time.Duration {
	if soak() {
		return 3 * time.Minute
	}
	return 2 * time.Minute
}()

// command is the program, to act so many times.
func (b *build) command(rounds int) *exec.Cmd {
	cmd := exec.Command(b.path, strconv.Itoa(rounds))
	cmd.Dir, cmd.Env = b.dir, b.environment()
	cmd.WaitDelay = time.Second
	return cmd
}

// untouched runs the program as it is.
func (b *build) untouched(t testing.TB, rounds int) outcome {
	t.Helper()
	r := b.start(t, rounds)
	return r.end()
}

// running is a program that runs.
type running struct {
	t       testing.TB
	cmd     *exec.Cmd
	in      io.Closer
	printed chan []byte
	began   chan struct{} // closed when it acts
}

// start starts the program and lets it run.
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to end its children with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, cmd: cmd, in: in, printed: make(chan []byte, 1), began: make(chan struct{})}
	go func() { r.printed <- readAll(out, r.began) }()
	return r
}

// readAll reads what a program prints, and tells when that begins.
func readAll(out io.Reader, began chan struct{}) []byte {
	lines := bufio.NewReader(out)
	line, _ := lines.ReadBytes('\n')
	close(began)
	rest, _ := io.ReadAll(lines)
	return append(line, rest...)
}

// end lets the program come to its end and waits for it.
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
