package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// village are the users of a fictitious machine.
type village map[uint32]string

func (v village) byName(name string) (uint32, error) {
	for uid, n := range v {
		if n == name {
			return uid, nil
		}
	}
	return 0, fmt.Errorf("this machine has no user %s", name)
}

func (v village) byID(uid uint32) (string, []uint32, error) {
	if name, ok := v[uid]; ok {
		return name, []uint32{uid, 100}, nil
	}
	return "", nil, fmt.Errorf("none")
}

var villagers = village{0: "root", 1000: "alice", 1001: "bob", 26: "postgres"}

// TestPolicy reads files of users. "parse" prints each user's grant, or the error;
// "of" prints the name and grant of a local user id.
func TestPolicy(t *testing.T) {
	datadriven.RunTest(t, "testdata/policy", func(t *testing.T, d *datadriven.TestData) string {
		p, err := parsePolicy(strings.NewReader(d.Input), "users", villagers)
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		var b strings.Builder
		for _, name := range p.names() {
			g, l, _ := p.grantOf(name, villagers)
			fmt.Fprintf(&b, "%s: admin %t, trace %t, commands %t, models %t, read %q, write %q, webhooks %v, exports %v, scrape %v\n", name, g.Admin, g.Trace, g.Commands, g.Models, g.Read, g.Write, g.Webhooks, g.Exports, g.Scrape)
			fmt.Fprintf(&b, "  sees %+v\n  limits %+v\n", *g.Viewer, l)
		}
		for _, uid := range []uint32{0, 1000, 1001, 7} {
			name := p.userOf(uid, villagers)
			fmt.Fprintf(&b, "uid %d is %q", uid, name)
			if g, _, ok := p.localGrant(uid, villagers); ok && strings.HasPrefix(name, localPrefix) {
				fmt.Fprintf(&b, ": admin %t, trace %t, anywhere %t, sees %+v", g.Admin, g.Trace, g.Anywhere, *g.Viewer)
			}
			b.WriteString("\n")
		}
		return b.String()
	})
}

func TestExampleReads(t *testing.T) {
	if _, err := parsePolicy(strings.NewReader(Example), "users", villagers); err != nil {
		t.Error(err)
	}
	// The example is valid with all its entries enabled.
	all := strings.ReplaceAll(Example, "\n#user", "\nuser")
	all = strings.ReplaceAll(all, "\n#  ", "\n  ")
	all = strings.ReplaceAll(all, "postgres www", "postgres")
	p, err := parsePolicy(strings.NewReader(all), "users", villagers)
	if err != nil {
		t.Fatal(err)
	}
	if e := p.users["alice"]; e == nil || !e.commands || len(e.webhooks) != 1 || e.limits != defaultLimits {
		t.Errorf("the example says %+v", e)
	}
}

// In a container, users of the machine have no names.
func TestUserIsNamedByNumber(t *testing.T) {
	for name, want := range map[string]uint32{"root": 0, "0": 0, "4000000001": 4000000001} {
		if uid, err := (machine{}).byName(name); err != nil || uid != want {
			t.Errorf("%s is %d, %v", name, uid, err)
		}
	}
	for _, name := range []string{"no-such-user", "-1", "4294967296"} {
		if uid, err := (machine{}).byName(name); err == nil || err.Error() != "this machine has no user "+name {
			t.Errorf("%s is %d, %v", name, uid, err)
		}
	}
}
