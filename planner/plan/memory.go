package plan

import (
	"strconv"
	"strings"
)

// Memory that is read as a type of the program is a column named by its canonical text:
//
//	CAST(args.ctx + 16 AS 'struct task *').name
//	container_of(CAST(arg0 AS 'struct list *').next, 'struct task', 'link').id
//
// [ReadPath] returns the steps from the argument to the value.

const (
	castBegin      = "CAST("
	containerBegin = "container_of("
)

// IsRead reports whether a column is memory read as a type of the program.
func IsRead(name string) bool {
	return strings.HasPrefix(name, castBegin) || strings.HasPrefix(name, containerBegin)
}

// Arguments of calls that are raw: arg0 to arg5 are columns of the streams, those after
// them are values, up to arg15.
const (
	rawColumns = 6
	maxRaw     = 16
)

// RawArgument returns the number of a raw argument: 7 of arg7.
func RawArgument(name string) (n int, ok bool) {
	digits, ok := strings.CutPrefix(name, "arg")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0 && n < maxRaw && digits == strconv.Itoa(n)
}

// AllArguments is the column of all arguments of a call, as one object. No catalog lists it.
const AllArguments = "args"

// IsStackArgument reports whether a column is a raw argument after those that are columns
// of the streams.
func IsStackArgument(name string) bool {
	n, ok := RawArgument(name)
	return ok && n >= rawColumns
}

// SplitPath splits the name of a value at its dots, except those in brackets: args and
// v[args.i] of args.v[args.i].
func SplitPath(name string) (parts []string) {
	inside, from := false, 0
	for i := range len(name) {
		switch c := name[i]; {
		case c == '[' || c == ']':
			inside = c == '['
		case c == '.' && !inside:
			parts, from = append(parts, name[from:i]), i+1
		}
	}
	return append(parts, name[from:])
}

// Step is a step on the way to a value in memory. One of its fields is set.
type Step struct {
	Part   string // a field of a struct, or [n] or [args.i], an element
	Cast   string // what was reached is of this type
	Member string // Cast contains this member, whose address was reached
	Add    int64  // bytes added to an address
}

// ReadPath parses the name of a column: where the reading begins (args.ctx, arg0,
// retval.next) and the steps from there. ok is false if the name is none.
func ReadPath(name string) (begin string, steps []Step, ok bool) {
	r := readParser{rest: name}
	begin, ok = r.value(0)
	return begin, r.steps, ok && r.rest == ""
}

type readParser struct {
	rest  string
	steps []Step
}

// maxReads bounds reads within reads.
const maxReads = 8

func (r *readParser) value(depth int) (begin string, ok bool) {
	switch {
	case depth > maxReads:
		return "", false
	case r.accept(castBegin):
		if begin, ok = r.value(depth + 1); !ok || !r.sum() || !r.accept(" AS ") {
			return "", false
		}
		t, ok := r.text()
		if !ok || !r.accept(")") {
			return "", false
		}
		r.steps = append(r.steps, Step{Cast: t})
	case r.accept(containerBegin):
		if begin, ok = r.value(depth + 1); !ok || !r.sum() || !r.accept(", ") {
			return "", false
		}
		t, ok := r.text()
		if !ok || !r.accept(", ") {
			return "", false
		}
		member, ok := r.text()
		if !ok || member == "" || !r.accept(")") {
			return "", false
		}
		r.steps = append(r.steps, Step{Cast: t, Member: member})
	default:
		end := strings.IndexAny(r.rest, " ,)")
		if end <= 0 {
			return "", false
		}
		begin, r.rest = r.rest[:end], r.rest[end:]
		return begin, true
	}
	return begin, r.parts()
}

// sum parses " + 16", if it is there.
func (r *readParser) sum() bool {
	sign := ""
	switch {
	case r.accept(" + "):
	case r.accept(" - "):
		sign = "-"
	default:
		return true
	}
	end := strings.IndexAny(r.rest, " ,")
	if end < 0 {
		return false
	}
	n, err := strconv.ParseInt(sign+r.rest[:end], 10, 64)
	r.rest = r.rest[end:]
	r.steps = append(r.steps, Step{Add: n})
	return err == nil
}

// parts parses [2].name, if it is there.
func (r *readParser) parts() bool {
	for r.rest != "" && (r.rest[0] == '.' || r.rest[0] == '[') {
		if r.accept(`."`) { // a name that is no word
			end := strings.IndexByte(r.rest, '"')
			if end < 0 {
				return false
			}
			r.steps = append(r.steps, Step{Part: r.rest[:end]})
			r.rest = r.rest[end+1:]
			continue
		}
		from := 0
		ends := "]"
		if r.rest[0] == '.' {
			from, ends = 1, ".[ ,)"
		}
		end := strings.IndexAny(r.rest[1:], ends)
		if from == 0 {
			if end < 0 {
				return false
			}
			end++
		}
		if end < 0 {
			end = len(r.rest) - 1
		}
		r.steps = append(r.steps, Step{Part: r.rest[from : end+1]})
		r.rest = r.rest[end+1:]
	}
	return true
}

// text parses a text in quotes.
func (r *readParser) text() (string, bool) {
	if !r.accept("'") {
		return "", false
	}
	end := strings.IndexByte(r.rest, '\'')
	if end < 0 {
		return "", false
	}
	t := r.rest[:end]
	r.rest = r.rest[end+1:]
	return t, true
}

func (r *readParser) accept(text string) bool {
	rest, ok := strings.CutPrefix(r.rest, text)
	if ok {
		r.rest = rest
	}
	return ok
}
