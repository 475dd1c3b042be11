package optest

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"endoscope/planner/types"
)

// cast converts a value to type t.
func cast(v types.Value, t types.Type) (types.Value, error) {
	from := v.Type
	switch {
	case v.IsNull || from == types.Null:
		return types.NullOf(t), nil
	case from == t:
		return v, nil
	case t == types.Bytes && from == types.Varchar, t == types.Varchar && from == types.Bytes:
		return types.Value{Type: t, S: v.S}, nil
	case t == types.Varchar:
		return types.Str(printed(v)), nil
	case from == types.Varchar:
		return parsed(strings.TrimSpace(v.S), t), nil
	case from == types.Double && integral(t):
		return rounded(v.F, t)
	case t == types.Double && integral(from):
		return types.Float(asFloat(v)), nil
	case integral(from) && integral(t):
		return Fits(Whole(v), t)
	case from == types.Boolean && (t == types.Bigint || t == types.Ubigint):
		return types.Value{Type: t, I: v.I}, nil
	case (from == types.Bigint || from == types.Ubigint) && t == types.Boolean:
		return types.Bool(v.I != 0), nil
	}
	return types.Value{}, fmt.Errorf("%s is not converted to %s", from, t)
}

func integral(t types.Type) bool {
	return t == types.Bigint || t == types.Ubigint || t == types.Timestamp || t == types.Duration
}

// printed returns a value as results show it.
func printed(v types.Value) string {
	if v.IsNull {
		return "NULL"
	}
	switch v.Type {
	case types.Boolean:
		return strconv.FormatBool(v.I != 0)
	case types.Bigint:
		return strconv.FormatInt(v.I, 10)
	case types.Ubigint:
		return Whole(v).String()
	case types.Double:
		return strconv.FormatFloat(v.F, 'g', -1, 64)
	case types.Timestamp:
		return time.Unix(0, v.I).UTC().Format("2006-01-02T15:04:05.999999999Z")
	case types.Duration:
		return printedDuration(v.I)
	case types.List:
		var parts []string
		list, _ := v.A.([]types.Value)
		for _, x := range list {
			parts = append(parts, printed(x))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case types.Encoding:
		return fmt.Sprint(v.A)
	}
	return v.S
}

var units = []struct {
	name string
	ns   int64
}{{"d", 86400e9}, {"h", 3600e9}, {"min", 60e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}}

// printedDuration uses the largest unit of which d is a whole number.
func printedDuration(d int64) string {
	if d == 0 {
		return "0ns"
	}
	for _, u := range units {
		if d%u.ns == 0 {
			return fmt.Sprintf("%d%s", d/u.ns, u.name)
		}
	}
	return ""
}

// parsed parses a value of type t; NULL if s is not one.
func parsed(s string, t types.Type) types.Value {
	switch t {
	case types.Bigint:
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return types.Int(i)
		}
	case types.Ubigint:
		if u, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, 64); err == nil {
			return types.Uint(u)
		}
	case types.Double:
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return types.Float(f)
		}
	case types.Boolean:
		switch strings.ToLower(s) {
		case "true", "t", "yes", "on", "1":
			return types.Bool(true)
		case "false", "f", "no", "off", "0":
			return types.Bool(false)
		}
	case types.Timestamp:
		if ns, ok := parsedTime(s); ok {
			return types.Time(ns)
		}
	case types.Duration:
		if ns, ok := parsedDuration(s); ok {
			return types.Dur(ns)
		}
	}
	return types.NullOf(t)
}

// parsedTime parses ISO 8601 with T or a blank; without a zone it is UTC, and the time of
// day may be left out.
func parsedTime(s string) (int64, bool) {
	s = strings.Replace(s, "T", " ", 1)
	for _, layout := range []string{"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		ns := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(1e9))
		ns.Add(ns, big.NewInt(int64(t.Nanosecond())))
		return ns.Int64(), ns.IsInt64()
	}
	return 0, false
}

var durationText = regexp.MustCompile(`^([+-]?[0-9.]+)\s*(ns|us|µs|ms|s|min|h|d)$`)

func parsedDuration(s string) (int64, bool) {
	m := durationText.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, false
	}
	name := strings.Replace(m[2], "µs", "us", 1)
	for _, u := range units {
		if u.name != name {
			continue
		}
		if i, ok := new(big.Int).SetString(m[1], 10); ok {
			i.Mul(i, big.NewInt(u.ns))
			return i.Int64(), i.IsInt64()
		}
		v, err := rounded(n*float64(u.ns), types.Duration)
		return v.I, err == nil
	}
	return 0, false
}
