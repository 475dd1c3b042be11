package server

import (
	"context"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/probes/process"
)

// Complete lists names for completion in the client's prompt.
func (s *session) Complete(_ context.Context, kind, of, prefix string) []string {
	var names []string
	switch kind {
	case "stream":
		for _, st := range catalog.Streams {
			if !st.Later {
				names = append(names, st.Name)
			}
		}
		names = append(names, s.streamNames()...)
	case "model":
		names = s.scope.Visible(s.e.models.ModelNames())
	case "trigger":
		names = s.triggerNames()
	case "export":
		names = s.exportNames()
	case "query":
		names = s.scope.Visible(s.e.options.Standing.Names())
	case "context":
		names = s.contextNames()
	case "column":
		names = s.contextNames()
		for _, st := range catalog.Streams {
			if of == "" || st.Name == of {
				for _, c := range st.All() {
					names = append(names, c.Name)
				}
			}
		}
	case "setting":
		for _, k := range catalog.Settings {
			if !k.Later {
				names = append(names, k.Name)
			}
		}
	case "process":
		ps, _ := process.ListFor(s.may.Sees())
		for _, p := range ps {
			names = append(names, p.Comm)
		}
	case "function":
		release, err := s.reserveSymbols(s.program().Target)
		if err != nil {
			break
		}
		defer release()
		fs, _ := s.program().Functions()
		for _, f := range fs {
			names = append(names, f.Name)
		}
		methods, _, _ := s.program().JavaMethods()
		for _, m := range methods {
			names = append(names, m.Function())
		}
	}
	return withPrefix(names, prefix)
}

// withPrefix returns the distinct names with a prefix, at most 1,000.
func withPrefix(names []string, prefix string) []string {
	seen := map[string]bool{}
	var out []string
	for _, n := range names {
		if strings.HasPrefix(n, prefix) && !seen[n] && len(out) < 1000 {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}
