package java

import (
	"fmt"
	"os"
	"strings"

	"endoscope/probes/process"
)

// Switch enables all of HotSpot's probes in a machine, newSwitch those at each
// call of a method: newer machines refuse to start with the former.
const (
	Switch    = "-XX:+ExtendedDTraceProbes"
	newSwitch = "-XX:+DTraceMethodProbes"
)

// Hint says how to make methods observable.
const Hint = "methods of Java can be observed where the machine is started with " + Switch + " (JDK 19 and newer: " + newSwitch + ")"

// flagFields are the fields on the path to the settings of a machine (JVMFlag).
var flagFields = []string{"JVMFlag::flags", "JVMFlag::numFlags", "JVMFlag::_name", "JVMFlag::_addr"}

const maxFlags = 1 << 13

// FiresMethodProbes reports whether a process's machine, mapped at library, fires
// the probes of calls: by its settings in memory or, if it has not read them
// yet or does not describe them, by its command line and environment.
func FiresMethodProbes(pid int, library process.Mapping) bool {
	m := &memory{pid: pid, pages: map[uint64][]byte{}}
	if s, err := m.describe(library); err == nil && s.needs(flagFields, "JVMFlag") == nil && s.flag("DTraceMethodProbes") {
		return true
	}
	return isEnabledByOptions(pid)
}

// flag returns the value of a boolean setting.
func (s *structures) flag(name string) bool {
	flag := s.word(s.at["JVMFlag::flags"])
	for range min(s.word(s.at["JVMFlag::numFlags"]), maxFlags) {
		if at := s.word(flag + s.at["JVMFlag::_name"]); at != 0 && s.text(at) == name {
			return s.half(s.word(flag+s.at["JVMFlag::_addr"]))&0xff == 1
		}
		flag += s.sizes["JVMFlag"]
	}
	return false
}

// isEnabledByOptions reports whether a machine's command line or environment
// (JAVA_TOOL_OPTIONS and the like) enables the probes.
func isEnabledByOptions(pid int) bool {
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
