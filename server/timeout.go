package server

import (
	"context"
	"time"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/answer"
	"endoscope/server/query"
)

// timeoutSetting is how long a statement may take. The user's limit is its maximum and
// its default.
const timeoutSetting = "statement_timeout"

type arrivalKey struct{}

// arrived records in a context that its statement arrives now.
func arrived(ctx context.Context) context.Context {
	return context.WithValue(ctx, arrivalKey{}, time.Now())
}

// timeout returns the timeout of the statement of a context.
func (s *session) timeout(ctx context.Context) query.Timeout {
	after := time.Duration(s.setting(timeoutSetting).I)
	if after == 0 {
		return query.Timeout{}
	}
	at, ok := ctx.Value(arrivalKey{}).(time.Time)
	if !ok {
		at = time.Now()
	}
	return query.Timeout{After: after, At: at.Add(after)}
}

// limitTimeout returns a value of the setting within the user's limit.
func (s *session) limitTimeout(v types.Value) types.Value {
	if limit := int64(s.may.Uses().Limits().Timeout); limit > 0 && (v.I == 0 || v.I > limit) {
		return types.Dur(limit)
	}
	return v
}

// checkTimeout refuses a value of the setting that exceeds the user's limit.
func (s *session) checkTimeout(st *parser.Set, v types.Value, text string) error {
	most := s.limitTimeout(v)
	switch {
	case most.I == v.I:
		return nil
	case v.I == 0:
		return answer.Refuse(st.Value, text, "", "statement_timeout cannot be turned off: your limit is %s", plan.FormatValue(most))
	}
	return answer.Refuse(st.Value, text, "", "statement_timeout lies between 1ns and %s, your limit", plan.FormatValue(most))
}
