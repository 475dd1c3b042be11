package java

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/process"
	"endoscope/probes/testenv"
)

// disassembled lists name and descriptor of a class's methods, from javap.
func disassembled(t *testing.T, dir, class string) (out []string) {
	t.Helper()
	text, err := exec.Command(testenv.NeedProgram(t, "javap"), "-p", "-s", "-cp", dir, class).Output()
	if err != nil {
		t.Fatal(err)
	}
	before := ""
	for line := range strings.Lines(string(text)) {
		if d, ok := strings.CutPrefix(strings.TrimSpace(line), "descriptor: "); ok && strings.HasPrefix(d, "(") {
			head, _, _ := strings.Cut(before, "(")
			switch name := head[strings.LastIndexByte(head, ' ')+1:]; name {
			case class:
				out = append(out, "<init>"+d)
			case "{};\n": // static
				out = append(out, "<clinit>"+d)
			default:
				out = append(out, name+d)
			}
		}
		before = line
	}
	slices.Sort(out)
	return out
}

// The methods of a machine's loaded classes are those of the class files.
func TestLoadedMethodsAgreeWithClassFiles(t *testing.T) {
	cmd := start(t)
	mappings, err := process.Modules(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(mappings, func(m process.Mapping) bool { return filepath.Base(m.Path) == Library })
	list, err := Loaded(cmd.Process.Pid, mappings[at])
	if err != nil {
		t.Fatal(err)
	}
	have := map[string][]string{}
	for _, m := range list {
		have[m.Class] = append(have[m.Class], m.Name+m.Descriptor)
	}
	for _, class := range []string{"Waits", "java.lang.String", "java.util.HashMap", "java.lang.Thread"} {
		slices.Sort(have[class])
		if diff := cmp.Diff(disassembled(t, testenv.CompileJavaText(t, "Waits", program), class), have[class]); diff != "" {
			t.Errorf("%s: %s", class, diff)
		}
	}
	other := (at + 1) % len(mappings)
	if _, err := Loaded(cmd.Process.Pid, mappings[other]); !errors.Is(err, errNotDescribed) {
		t.Errorf("%s: error %v", mappings[other].Path, err)
	}
}

// FiresMethodProbes agrees with the machine's setting, even if that comes from an
// arguments file.
func TestTellsMethods(t *testing.T) {
	file := filepath.Join(t.TempDir(), "arguments")
	if err := os.WriteFile(file, []byte(Switch+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for option, want := range map[string]bool{"-Dx=1": false, Switch: true, newSwitch: true, "@" + file: true} {
		cmd := start(t, option)
		mappings, err := process.Modules(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(mappings, func(m process.Mapping) bool { return filepath.Base(m.Path) == Library })
		if got := FiresMethodProbes(cmd.Process.Pid, mappings[at]); got != want {
			t.Errorf("%s: %v", option, got)
		}
	}
}
