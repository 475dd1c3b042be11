package debugfiles

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

func TestPackage(t *testing.T) {
	info := t.TempDir()
	for name, text := range map[string]string{
		"tool-15.list":              "/.\n/usr\n/usr/bin\n/usr/bin/tool\n",
		"libc6:amd64.list":          "/lib/x86_64-linux-gnu/libc.so.6\n",
		"libx1:amd64.list":          "/usr/lib/x86_64-linux-gnu/libx.so.1\n",
		"libx1-dbgsym:amd64.list":   "/usr/lib/debug\n",
		"other.list":                "/usr/bin/tool-else\n/usr/bin/too", // cut
		"tool-15.md5sums":           "0 /usr/bin/absent\n",
		"long.list":                 strings.Repeat("x", 1<<17) + "\n/opt/long\n",
		"libx1-dbgsym:i386.md5sums": "",
	} {
		if err := os.WriteFile(filepath.Join(info, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"/usr/bin/tool":                       "tool-15-dbgsym",
		"/usr/lib/x86_64-linux-gnu/libc.so.6": "libc6-dbg",
		"/lib/x86_64-linux-gnu/libx.so.1":     "libx1-dbgsym installed",
		"/opt/long":                           "long-dbgsym",
		"/usr/bin/too":                        "other-dbgsym",
		"/usr/bin/absent":                     "",
	} {
		got, installed := packageIn(info, path)
		if installed {
			got += " installed"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got, _ := packageIn(filepath.Join(info, "none"), "/usr/bin/tool"); got != "" {
		t.Errorf("without dpkg: %q", got)
	}
}

// dpkg itself says of which package a program is.
func TestPackageOfThisMachine(t *testing.T) {
	dpkg, checked := testenv.NeedProgram(t, "dpkg-query"), 0
	for _, path := range []string{"/usr/bin/gdb", "/usr/bin/gcc-12", "/usr/lib/postgresql/15/bin/postgres", "/lib/x86_64-linux-gnu/libm.so.6"} {
		out, err := exec.Command(dpkg, "-S", path).Output()
		if err != nil {
			continue
		}
		owner, _, _ := strings.Cut(string(out), ":")
		want := owner + "-dbgsym"
		if owner == "libc6" {
			want = "libc6-dbg"
		}
		if got, _ := Package(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		checked++
	}
	if checked == 0 {
		testenv.Skip(t, "none of the programs is of a package")
	}
}
