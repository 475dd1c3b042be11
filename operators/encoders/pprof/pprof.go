package pprof

import (
	"strings"

	"github.com/google/pprof/profile"

	"endoscope/planner/types"
)

// Frame is a frame of a stack. What is not known is empty.
type Frame struct {
	Function, Module, File string
	Line                   int64
}

// FrameOf reads a frame: [function, module, kind, file, line, inlined], or a text.
func FrameOf(v types.Value) (f Frame) {
	parts, ok := v.A.([]types.Value)
	if !ok {
		parts = []types.Value{v}
	}
	text := func(i int) string {
		if i < len(parts) && !parts[i].IsNull && parts[i].Type == types.Varchar {
			return parts[i].S
		}
		return ""
	}
	f.Function, f.Module, f.File = text(0), text(1), text(3)
	if len(parts) > 4 && parts[4].Type == types.Bigint && !parts[4].IsNull {
		f.Line = parts[4].I
	}
	if f.Function == "" {
		f.Function = "(unknown)"
	}
	return f
}

// Builder adds locations to a profile. Each frame, function and module is added once.
type Builder struct {
	Profile   *profile.Profile
	locations map[Frame]*profile.Location
	functions map[function]*profile.Function
	modules   map[string]*profile.Mapping
}

type function struct{ name, file string }

// NewBuilder returns a builder for a profile without locations.
func NewBuilder(p *profile.Profile) *Builder {
	return &Builder{Profile: p, locations: map[Frame]*profile.Location{}, functions: map[function]*profile.Function{}, modules: map[string]*profile.Mapping{}}
}

// Location returns the location of a frame.
func (b *Builder) Location(f Frame) *profile.Location {
	l := b.locations[f]
	if l != nil {
		return l
	}
	m := b.modules[f.Module]
	if m == nil && f.Module != "" {
		m = &profile.Mapping{ID: uint64(len(b.Profile.Mapping) + 1), File: Text(f.Module), HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}
		b.modules[f.Module] = m
		b.Profile.Mapping = append(b.Profile.Mapping, m)
	}
	k := function{f.Function, f.File}
	fn := b.functions[k]
	if fn == nil {
		name := Text(f.Function)
		fn = &profile.Function{ID: uint64(len(b.Profile.Function) + 1), Name: name, SystemName: name, Filename: Text(f.File)}
		b.functions[k] = fn
		b.Profile.Function = append(b.Profile.Function, fn)
	}
	l = &profile.Location{ID: uint64(len(b.Profile.Location) + 1), Mapping: m, Line: []profile.Line{{Function: fn, Line: f.Line}}}
	b.locations[f] = l
	b.Profile.Location = append(b.Profile.Location, l)
	return l
}

// Text replaces what is not UTF-8 by U+FFFD: strings of protocol buffers are UTF-8.
func Text(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
