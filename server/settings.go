package server

import (
	"slices"
	"strings"
	"time"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/answer"
	"endoscope/server/query"
	"endoscope/server/wire"
)

// setting returns the session's value of a setting, or its default.
func (s *session) setting(name string) types.Value {
	s.mu.Lock()
	v, ok := s.settings[name]
	s.mu.Unlock()
	if !ok {
		v = catalog.FindSetting(name).Default
	}
	if name == timeoutSetting {
		return s.limitTimeout(v) // which may have changed
	}
	if name == overheadSetting {
		return s.limitOverhead(v)
	}
	return v
}

// set runs SET key = value.
func (s *session) set(st *parser.Set, text string) (wire.Result, error) {
	key := strings.ToLower(st.Key.Name)
	k := catalog.FindSetting(key)
	if k == nil {
		var names []string
		for _, k := range catalog.Settings {
			names = append(names, k.Name)
		}
		hint := plan.DidYouMean(key, names)
		if hint == "" {
			hint = "SHOW SETTINGS lists them"
		}
		return nil, answer.Refuse(st.Key, text, hint, "there is no setting %s", st.Key.Name)
	}
	if k.Later {
		return nil, answer.Unsupported(st.Key, text, "SET "+k.Name)
	}
	v, ok := settingValue(k.Type, st.Value)
	if !ok {
		return nil, answer.Refuse(st.Value, text, "its default is "+plan.FormatValue(k.Default), "%s needs %s", k.Name, settingWords[k.Type])
	}
	if !k.Min.IsNull && (v.I < k.Min.I || v.I > k.Max.I || v.F < k.Min.F || v.F > k.Max.F) {
		return nil, answer.Refuse(st.Value, text, "", "%s lies between %s and %s", k.Name, plan.FormatValue(k.Min), plan.FormatValue(k.Max))
	}
	if k.Values != nil {
		v.S = strings.ToLower(v.S)
		if !slices.Contains(k.Values, v.S) {
			return nil, answer.Refuse(st.Value, text, "", "%s is one of %s", k.Name, strings.Join(k.Values, ", "))
		}
	}
	if err := s.permitSetting(st, k.Name, v.S, text); err != nil {
		return nil, err
	}
	if k.Name == timeoutSetting {
		if err := s.checkTimeout(st, v, text); err != nil {
			return nil, err
		}
	}
	if most := s.limitOverhead(v); k.Name == overheadSetting && most.F != v.F {
		return nil, answer.Refuse(st.Value, text, "", "overhead lies between 0%% and %.4g%%, your limit, and is not 0", most.F)
	}
	s.mu.Lock()
	s.settings[k.Name] = v
	if k.Name != timeoutSetting { // triggers, which are restored with them, have no timeout
		s.statements[k.Name] = st.String()
	}
	s.mu.Unlock()
	return answer.Messagef("%s is %s", k.Name, plan.FormatValue(v)), nil
}

func settingValue(t types.Type, l *parser.Literal) (types.Value, bool) {
	switch {
	case t == types.Duration && l.Kind == parser.LitDuration:
		return types.Dur(l.Int), true
	case t == types.Bigint && (l.Kind == parser.LitInt || l.Kind == parser.LitSize):
		return types.Int(l.Int), true
	case t == types.Double && (l.Kind == parser.LitPercent || l.Kind == parser.LitFloat):
		return types.Float(l.F), true
	case t == types.Double && l.Kind == parser.LitInt:
		return types.Float(float64(l.Int)), true
	case t == types.Varchar && l.Kind == parser.LitString:
		return types.Str(l.Str), true
	}
	return types.Value{}, false
}

// overheadSetting is what observing calls may cost a program, in percent. The user's limit is its
// maximum and its default.
const overheadSetting = "overhead"

// limitOverhead returns a value of the setting within the user's limit.
func (s *session) limitOverhead(v types.Value) types.Value {
	if limit := 100 * s.may.Uses().Limits().Overhead; limit > 0 && (v.F == 0 || v.F > limit) {
		return types.Float(limit)
	}
	return v
}

// divide divides a prepared query between the engine and the client at the end
// of a path.
func (s *session) divide(q *query.Query, path wire.Path) error {
	if path == nil {
		return nil
	}
	return q.Divide(path, s.setting("placement").S, s.e.options.Steer)
}

func (s *session) noKernel() bool { return s.setting("kernel").S == "off" }

// returnProbes maps the values of SET return_probes.
var returnProbes = map[string]plan.ReturnProbes{"auto": plan.AutoReturns, "trap": plan.TrapReturns, "exits": plan.ExitReturns}

// budgets are the settings that limit the memory of operators.
type budgets struct{ join, encoder int64 }

func (s *session) budgets() budgets {
	return budgets{join: s.setting("join_memory").I, encoder: s.setting("encoder_budget").I}
}

func (b budgets) apply(q *query.Query) { q.JoinMemory, q.EncoderBudget = b.join, b.encoder }

// settingWords describes the values that a setting of a type accepts.
var settingWords = map[types.Type]string{
	types.Bigint: "a whole number", types.Double: "a number", types.Duration: "a duration", types.Varchar: "a text",
}

// handlerSettings returns the settings for finding event handlers.
func (s *session) handlerSettings() plan.HandlerSettings {
	count := func(name string) uint64 { return uint64(s.setting(name).I) }
	share := func(name string) float64 { return s.setting(name).F / 100 }
	return plan.HandlerSettings{
		MinSamples: count("handler_min_samples"), MinChildSamples: count("handler_min_child_samples"), MinShare: share("handler_min_share"),
		WaitRatio: share("handler_wait_ratio"), WaitShare: share("handler_wait_share"), IORatio: share("handler_io_ratio"), IOShare: share("handler_io_share"),
		RunRatio: share("handler_run_ratio"), OutputRatio: share("handler_output_ratio"),
	}
}

// withSettings copies the session's settings to every acquisition of a plan.
func (s *session) withSettings(p *plan.Query) *plan.Query {
	v := plan.Settings{
		Lateness:      time.Duration(s.setting("lateness").I),
		RateWindow:    time.Duration(s.setting("rate_window").I),
		MaxProbes:     int(s.setting("max_probes").I),
		NoKernel:      s.noKernel(),
		MaxTextCopy:   s.setting("max_text_copy").I,
		PlainEntries:  s.setting("probe_sites").S == "entry",
		AllProbed:     s.setting("infer_counts").S == "off",
		MaxEventRate:  s.setting("max_event_rate").I,
		JoinGated:     s.setting("join_gating").S == "gated",
		JoinPlan:      s.setting("join_plan").S,
		MaxOverhead:   s.setting("max_overhead").F / 100,
		Returns:       returnProbes[s.setting("return_probes").S],
		ProbeLinks:    s.setting("probe_links").S,
		Unshared:      s.setting("sharing").S == "off",
		SystemModules: s.setting("system_modules").S,
		StackBytes:    int(s.setting("stack_bytes").I),
		OverheadDrain: time.Duration(s.setting("overhead_drain").I),
		StackOverhead: s.setting("stack_overhead").F / 100,
		JavaStacks:    s.setting("java_stacks").S,
		PythonLines:   s.setting("python_entries").S == "lines",
		Handlers:      s.handlerSettings(),
		HandlerMemory: time.Duration(s.setting("handler_memory").I),
		MaxString:     int(s.setting("max_string").I),
		AbsentNull:    s.setting("absent_memory").S == "null",

		DebugDirectory: s.setting("debug_directory").S,
		DebugServers:   s.debugServers(),
	}
	follow := s.setting("follow").S == "children"
	out := *p
	out.Notices = slices.Clone(p.Notices)
	out.Root = plan.TransformNodes(p.Root, func(n plan.Node) plan.Node {
		a, ok := n.(*plan.Acquire)
		if !ok {
			return n
		}
		c := *a
		c.Settings, c.Target.Follow = v, follow && len(c.Target.Files) == 0
		return &c
	})
	return &out
}
