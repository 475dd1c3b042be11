package server

import (
	"os"
	"path/filepath"
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/probes/debugfiles"
	"endoscope/probes/elf"
	"endoscope/server/answer"
)

// permitSetting refuses values of debug_directory and debuginfod that are none, or that the
// session has no permission for: files are read, and fetched, with the engine's rights.
func (s *session) permitSetting(st *parser.Set, name, value, text string) error {
	switch name {
	case "debug_directory":
		for _, dir := range debugfiles.Directories(value) {
			if !filepath.IsAbs(dir) {
				return answer.Refuse(st.Value, text, "several are separated by colons: '/srv/debug:/opt/debug'", "debug_directory needs absolute paths, not '%s'", dir)
			}
			if _, err := s.may.MayRead(filepath.Join(dir, ".build-id")); err != nil {
				return answer.Forbidden(err, st.Value, text)
			}
		}
	case "debuginfod":
		if value == "off" || value == "" {
			return nil
		}
		if err := s.may.MayFetch(); err != nil {
			return answer.Forbidden(err, st.Value, text)
		}
		servers := value
		if value == "on" {
			if servers = os.Getenv(debugfiles.ServersVariable); strings.TrimSpace(servers) == "" {
				return answer.Refuse(st.Value, text, "SET debuginfod = 'https://debuginfod.debian.net' names a server", "the environment of the engine has no %s", debugfiles.ServersVariable)
			}
		}
		if _, err := debugfiles.Servers(servers); err != nil {
			return answer.Refuse(st.Value, text, "it is off, on (the servers of "+debugfiles.ServersVariable+") or URLs separated by spaces", "%v", err)
		}
	}
	return nil
}

// debugServers returns the URLs from which the session fetches debug files; "" if it fetches none.
func (s *session) debugServers() string {
	switch value := s.setting("debuginfod").S; value {
	case "off", "":
		return ""
	case "on":
		return os.Getenv(debugfiles.ServersVariable)
	default:
		return value
	}
}

// debugFiles says where the debug files of the session's target are.
func (s *session) debugFiles() elf.Search {
	return debugfiles.Search(plan.Settings{DebugDirectory: s.setting("debug_directory").S, DebugServers: s.debugServers()})
}
