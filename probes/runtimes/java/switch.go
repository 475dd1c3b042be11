package java

import (
	"fmt"
	"os"
	"strings"
)

// Switch has a machine pass all of HotSpot's probes, newSwitch those at each call of a
// method: newer ones refuse to start with the former.
const (
	Switch    = "-XX:+ExtendedDTraceProbes"
	newSwitch = "-XX:+DTraceMethodProbes"
)

// Hint is how methods become visible.
const Hint = "methods of Java can be observed where the machine is started with " + Switch + " (JDK 19 and newer: " + newSwitch + ")"

// TellsMethods reports whether a machine was told to pass the probes of calls, as
// far as its command and its environment say (JAVA_TOOL_OPTIONS and the like).
func TellsMethods(pid int) bool {
	for _, file := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			continue
		}
		on := false
		for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return r == 0 || r == ' ' || r == '=' }) {
			switch word {
			case Switch, newSwitch:
				on = true
			case "-XX:-ExtendedDTraceProbes", "-XX:-DTraceMethodProbes":
				on = false
			}
		}
		if on {
			return true
		}
	}
	return false
}
