package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"endoscope/operators"
	"endoscope/parser"
	"endoscope/server/answer"
	"endoscope/server/query"
	"endoscope/server/wire"
)

// suspend runs SUSPEND and RESUME. They affect the session's queries, running
// and future ones. What is acquired CONSISTENT is still tracked.
func (s *session) suspend(thread *parser.Literal, yes bool) wire.Result {
	signal := operators.Signal{Kind: operators.Resume}
	what, how := "reporting", "resumed"
	if yes {
		signal.Kind, how = operators.Suspend, "suspended"
	}
	if thread != nil {
		signal.Thread = thread.Str
		what = "reporting of thread " + thread.Str
	}
	s.mu.Lock()
	switch {
	case thread == nil:
		s.quiet.All = yes
	case yes:
		if s.quiet.Threads == nil {
			s.quiet.Threads = map[string]bool{}
		}
		s.quiet.Threads[thread.Str] = true
	default:
		delete(s.quiet.Threads, thread.Str)
	}
	quiet := query.Suspended{All: s.quiet.All, Threads: maps.Clone(s.quiet.Threads)}
	open := make([]*query.Query, 0, len(s.open))
	for q := range s.open {
		open = append(open, q)
	}
	s.mu.Unlock()
	slices.SortFunc(open, func(a, b *query.Query) int { return int(a.ID - b.ID) })
	r := answer.Messagef("%s %s", what, how)
	var nameless []string
	for _, q := range open {
		q.Report(signal)
		q.SuspendSources(quiet)
		if yes && thread != nil && q.Nameless() {
			nameless = append(nameless, fmt.Sprint(q.ID))
		}
	}
	if len(nameless) > 0 {
		r.Notices = append(r.Notices, fmt.Sprintf("query %s does not read thread_name, and continues to report all threads", strings.Join(nameless, ", ")))
	}
	return r
}
