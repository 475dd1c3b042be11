package parser

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sourceShape describes the arguments of a source.
type sourceShape struct {
	kind    SourceKind
	first   string // the first argument: "stream", "source" or ""
	args    string // the literals after it, as parameters: "slide, size"
	types   []LiteralKind
	example string
}

// sourceShapes are keyed by name, in upper case. Windows over files without timestamps
// count lines: their sizes may be plain numbers.
var sourceShapes = map[string]sourceShape{
	"SAMPLE":     {SourceSample, "stream", "interval", []LiteralKind{LitDuration}, "SAMPLE(cpu_usage, 100ms)"},
	"TUMBLE":     {SourceTumble, "source", "size", []LiteralKind{LitDuration, LitInt}, "TUMBLE(function_duration, 1s)"},
	"HOP":        {SourceHop, "source", "slide, size", []LiteralKind{LitDuration, LitInt}, "HOP(function_duration, 1s, 10s)"},
	"SESSION":    {SourceSession, "source", "gap", []LiteralKind{LitDuration, LitInt}, "SESSION(function_duration, 1s PARTITION BY tid)"},
	"CONSISTENT": {SourceConsistent, "source", "", nil, "CONSISTENT(entity_events)"},
	"FILE":       {SourceFile, "", "path", []LiteralKind{LitString}, "file('in.csv')"},
	"SERIES":     {SourceSeries, "", "n", []LiteralKind{LitInt}, "series(10)"},
}

func (s sourceShape) params() []string {
	if s.args == "" {
		return nil
	}
	return strings.Split(s.args, ", ")
}

// takes describes the arguments in words.
func (s sourceShape) takes() string {
	var all []string
	if s.first != "" {
		all = append(all, "a "+s.first)
	}
	for _, p := range s.params() {
		switch p {
		case "interval":
			p = "an interval"
		case "n":
			p = "a whole number"
		default:
			p = "a " + p
		}
		all = append(all, p)
	}
	return inWords(all, "and")
}

func (l *lowering) source(s *sourceRule) *Source {
	out := &Source{Span: l.span(s.at), Alias: aliasOf(s.Alias, s.Bare)}
	switch {
	case s.Query != nil:
		out.Kind, out.Query = SourceQuery, l.query(s.Query)
	case s.Args == nil:
		out.Kind, out.Name = SourceStream, s.Name.Ident
	default:
		l.sourceCall(s, out)
	}
	return out
}

// sourceCall checks the arguments of a source against its shape.
func (l *lowering) sourceCall(s *sourceRule, out *Source) {
	name := strings.ToUpper(s.Name.Name)
	shape, ok := sourceShapes[name]
	if !ok || s.Name.Quoted {
		names := slices.Sorted(maps.Keys(sourceShapes))
		hint := "sources with arguments are " + inWords(names, "and")
		if near := nearest(name, names); near != "" {
			hint = sourceShapes[near].example
		}
		l.fail(s.Name.Span, fmt.Sprintf("no source is called %s", shorten(s.Name.Name)), hint)
		return
	}
	out.Kind = shape.kind
	args, params := s.Args.Args, shape.params()
	want := len(params)
	if shape.first != "" {
		want++
	}
	if len(args) != want {
		l.fail(l.span(s.Args.at), fmt.Sprintf("%s takes %s, but has %s here", s.Name.Name, shape.takes(), count(len(args), "argument")), shape.example)
		return
	}
	if shape.first != "" {
		l.firstArgument(s, shape, args[0], out)
		args = args[1:]
	}
	for i, a := range args {
		if a.Literal == nil || !slices.Contains(shape.types, a.Literal.Kind) {
			l.fail(l.argSpan(a), fmt.Sprintf("the %s of %s must be %s", paramWord(params[i]), s.Name.Name, kindWord[shape.types[0]]), l.argHint(a, shape))
			return
		}
		out.Args = append(out.Args, a.Literal.Literal)
	}
	if len(s.Args.By) > 0 && shape.kind != SourceSession {
		l.fail(s.Args.By[0].Pos(), s.Name.Name+" takes no PARTITION BY", sourceShapes["SESSION"].example)
		return
	}
	out.By = exprList(s.Args.By)
}

func paramWord(p string) string {
	if p == "n" {
		return "argument"
	}
	return p
}

var kindWord = map[LiteralKind]string{
	LitDuration: "a duration such as 100ms", LitString: "a string in single quotes", LitInt: "a whole number",
}

// firstArgument sets the stream or the source that a source reads.
func (l *lowering) firstArgument(s *sourceRule, shape sourceShape, a *argRule, out *Source) {
	if a.Source == nil {
		l.fail(a.Literal.Span, fmt.Sprintf("%s takes a %s first", s.Name.Name, shape.first), shape.example)
		return
	}
	if shape.first == "source" {
		out.Src = l.source(a.Source)
		return
	}
	if a.Source.Name == nil || a.Source.Args != nil {
		l.fail(l.span(a.Source.at), s.Name.Name+" takes the name of a stream", shape.example)
		return
	}
	if alias := aliasOf(a.Source.Alias, a.Source.Bare); alias != nil {
		l.fail(alias.Span, "the alias is written after the closing parenthesis of "+s.Name.Name, shape.example+" AS "+alias.String())
		return
	}
	out.Name = a.Source.Name.Ident
}

func (l *lowering) argSpan(a *argRule) Span {
	if a.Literal != nil {
		return a.Literal.Span
	}
	return l.span(a.Source.at)
}

// argHint returns a hint for a correctable argument: a number without its unit, a string
// without its quotes.
func (l *lowering) argHint(a *argRule, shape sourceShape) string {
	span := l.argSpan(a)
	switch {
	case shape.types[0] == LitDuration && a.Literal != nil && a.Literal.Kind == LitInt:
		return fmt.Sprintf("add a unit: %sms, %[1]ss, %[1]smin", a.Literal.Text)
	case shape.types[0] == LitString && a.Source != nil && a.Source.Name != nil && a.Source.Args == nil && span.Stop-span.Start < maxShown:
		return "file(" + quoteString(a.Source.Name.Name) + ")"
	}
	return shape.example
}

// count formats "1 argument", "2 arguments".
func count(n int, thing string) string {
	switch n {
	case 0:
		return "no " + thing + "s"
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// inWords formats "a, b and c".
func inWords(list []string, last string) string {
	switch n := len(list); n {
	case 0:
		return ""
	case 1:
		return list[0]
	default:
		return strings.Join(list[:n-1], ", ") + " " + last + " " + list[n-1]
	}
}
