package optest

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"endoscope/planner/types"
)

// textual evaluates the functions of text, and date_trunc.
func textual(fn string, args []types.Value) (types.Value, error) {
	s := args[0].S
	switch fn {
	case "||":
		return types.Str(s + args[1].S), nil
	case "like":
		return types.Bool(like([]rune(s), []rune(args[1].S))), nil
	case "ilike":
		return types.Bool(like([]rune(strings.ToLower(s)), []rune(strings.ToLower(args[1].S)))), nil
	case "~":
		re, err := regexp.Compile(args[1].S)
		if err != nil {
			return types.Value{}, err
		}
		return types.Bool(re.MatchString(s)), nil
	case "hex":
		return types.Str(fmt.Sprintf("%#x", uint64(args[0].I))), nil
	case "length":
		if args[0].Type == types.List {
			list, _ := args[0].A.([]types.Value)
			return types.Int(int64(len(list))), nil
		}
		if args[0].Type == types.Bytes {
			return types.Int(int64(len(s))), nil
		}
		return types.Int(int64(utf8.RuneCountInString(s))), nil
	case "lower":
		return types.Str(strings.ToLower(s)), nil
	case "upper":
		return types.Str(strings.ToUpper(s)), nil
	case "label":
		var labels map[string]string
		if json.Unmarshal([]byte(s), &labels) != nil {
			return types.NullOf(types.Varchar), nil
		}
		if v, ok := labels[args[1].S]; ok {
			return types.Str(v), nil
		}
		return types.NullOf(types.Varchar), nil
	case "starts_with":
		return types.Bool(strings.HasPrefix(s, args[1].S)), nil
	case "replace":
		if args[1].S == "" {
			return args[0], nil
		}
		return types.Str(strings.ReplaceAll(s, args[1].S, args[2].S)), nil
	case "substr":
		return types.Str(substr([]rune(s), args[1:])), nil
	case "split_part":
		return types.Str(splitPart(s, args[1].S, args[2].I)), nil
	case "regexp_extract":
		return regexpExtract(s, args[1].S, args[2:])
	case "format_stack", "folded_stack":
		return types.Str(stackText(fn, args)), nil
	case "source_stack":
		return types.Str(placesText(args)), nil
	case "frame":
		return stackFrame(args[0], args[1].I), nil
	case "frame.module":
		return frameField(args, 1, types.Varchar), nil
	case "frame.file":
		return frameField(args, 3, types.Varchar), nil
	case "frame.line":
		return frameField(args, 4, types.Bigint), nil
	case "frame.inlined":
		return frameField(args, 5, types.Boolean), nil
	case "date_trunc":
		return dateTrunc(s, args[1].I)
	}
	return types.Value{}, fmt.Errorf("no function %s", fn)
}

// like matches all of s against a pattern of %, _ and backslash.
func like(s, pattern []rune) bool {
	if len(pattern) == 0 {
		return len(s) == 0
	}
	switch p := pattern[0]; {
	case p == '%':
		for i := range len(s) + 1 {
			if like(s[i:], pattern[1:]) {
				return true
			}
		}
		return false
	case p == '_':
		return len(s) > 0 && like(s[1:], pattern[1:])
	case p == '\\' && len(pattern) > 1:
		return len(s) > 0 && s[0] == pattern[1] && like(s[1:], pattern[2:])
	default:
		return len(s) > 0 && s[0] == p && like(s[1:], pattern[1:])
	}
}

// substr keeps the characters at the positions from (first is 1) to from+n-1; positions
// before the first do not exist.
func substr(s []rune, args []types.Value) string {
	from := big.NewInt(args[0].I)
	end := big.NewInt(int64(len(s)) + 1)
	if len(args) > 1 {
		end = new(big.Int).Add(from, big.NewInt(args[1].I))
	}
	var kept []rune
	for i, c := range s {
		pos := big.NewInt(int64(i) + 1)
		if pos.Cmp(from) >= 0 && pos.Cmp(end) < 0 {
			kept = append(kept, c)
		}
	}
	return string(kept)
}

func splitPart(s, sep string, n int64) string {
	fields := []string{s}
	if sep != "" {
		fields = strings.Split(s, sep)
	}
	if n < 0 {
		n += int64(len(fields)) + 1
	}
	if n < 1 || n > int64(len(fields)) {
		return ""
	}
	return fields[n-1]
}

func regexpExtract(s, pattern string, group []types.Value) (types.Value, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return types.Value{}, err
	}
	n := int64(0)
	if len(group) > 0 {
		n = group[0].I
	}
	at := re.FindStringSubmatchIndex(s)
	if at == nil || n < 0 || n > int64(re.NumSubexp()) || at[2*n] < 0 {
		return types.NullOf(types.Varchar), nil
	}
	return types.Str(s[at[2*n]:at[2*n+1]]), nil
}

func dateTrunc(unit string, t int64) (types.Value, error) {
	ns := map[string]int64{"microsecond": 1e3, "millisecond": 1e6, "second": 1e9, "minute": 60e9, "hour": 3600e9, "day": 86400e9}[strings.ToLower(unit)]
	if ns == 0 {
		return types.Value{}, fmt.Errorf("no unit of time: %s", unit)
	}
	u := big.NewInt(ns)
	down := new(big.Int).Div(big.NewInt(t), u) // Euclidean: downwards for a positive unit
	return Fits(down.Mul(down, u), types.Timestamp)
}

// stackText lists the functions of a stack: leaf first, or root first.
func stackText(fn string, args []types.Value) string {
	n := int64(1 << 62)
	if len(args) > 1 {
		n = args[1].I
	}
	var names []string
	for i := int64(0); i < n; i++ {
		f := stackFrame(args[0], i)
		if f.IsNull {
			break
		}
		names = append(names, f.S)
	}
	if fn == "format_stack" {
		return strings.Join(names, " < ")
	}
	slices.Reverse(names)
	return strings.Join(names, ";")
}

// placesText lists the frames of a stack with their places.
func placesText(args []types.Value) string {
	n := int64(1 << 62)
	if len(args) > 1 {
		n = args[1].I
	}
	var lines []string
	for i := int64(0); i < n; i++ {
		f := stackFrame(args[0], i)
		if f.IsNull {
			break
		}
		at := []types.Value{args[0], types.Int(i)}
		line := f.S
		if file := frameField(at, 3, types.Varchar); !file.IsNull {
			line += " at " + file.S
			if number := frameField(at, 4, types.Bigint); !number.IsNull {
				line += fmt.Sprintf(":%d", number.I)
			}
		}
		if in := frameField(at, 5, types.Boolean); !in.IsNull && in.I == 1 {
			line += " (inlined)"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// frameField returns an element of a frame of a stack, if it has one of the type.
func frameField(args []types.Value, at int, t types.Type) types.Value {
	frames, _ := args[0].A.([]types.Value)
	i := args[1].I
	if i < 0 {
		i += int64(len(frames))
	}
	if i < 0 || i >= int64(len(frames)) {
		return types.NullOf(t)
	}
	parts, _ := frames[i].A.([]types.Value)
	if at >= len(parts) || parts[at].Type != t {
		return types.NullOf(t)
	}
	return parts[at]
}

// stackFrame returns the function of a frame, the first element of its list.
func stackFrame(stack types.Value, i int64) types.Value {
	frames, _ := stack.A.([]types.Value)
	if i < 0 {
		i += int64(len(frames))
	}
	if i < 0 || i >= int64(len(frames)) {
		return types.NullOf(types.Varchar)
	}
	f := frames[i]
	for {
		parts, ok := f.A.([]types.Value)
		if !ok || len(parts) == 0 {
			break
		}
		f = parts[0]
	}
	if f.Type == types.Varchar {
		return types.Str(f.S)
	}
	v, _ := cast(f, types.Varchar)
	return v
}
