package parser

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// unit is a unit of measure and its size in the smallest unit.
type unit struct {
	name string
	size int64
}

// Units, largest first.
var (
	durationUnits = []unit{
		{"d", 86400e9}, {"h", 3600e9}, {"min", 60e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1},
	}
	sizeUnits = []unit{
		{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6},
		{"KiB", 1 << 10}, {"KB", 1e3}, {"B", 1},
	}
)

// otherSpelling maps other spellings of units to the units. The two letters for micro are
// spelled out.
var otherSpelling = map[string]string{
	"nsec": "ns", "nsecs": "ns", "nanos": "ns", "nanosecond": "ns", "nanoseconds": "ns",
	"usec": "us", "usecs": "us", "micros": "us", "microsecond": "us", "microseconds": "us",
	"msec": "ms", "msecs": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
	"sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"m": "min", "mins": "min", "minute": "min", "minutes": "min",
	"hr": "h", "hrs": "h", "hour": "h", "hours": "h", "day": "d", "days": "d",
	"k": "KiB", "g": "GiB", "byte": "B", "bytes": "B",
}

// WholeNumber returns the number that a literal is if that is whole: 64, 0x40, 4KiB.
func WholeNumber(literal string) (n int64, ok bool) {
	l, err := number(literal)
	if err != nil || l.Kind != LitInt && l.Kind != LitSize {
		return 0, false
	}
	return l.Int, true
}

// micro spells both letters for micro as u.
var micro = strings.NewReplacer("µ", "u", "μ", "u")

// findUnit finds a unit by name, ignoring case; µ is u.
func findUnit(name string) (u unit, kind LiteralKind, ok bool) {
	if strings.ContainsAny(name, "µμ") {
		name = micro.Replace(name)
	}
	for _, u := range durationUnits {
		if strings.EqualFold(u.name, name) {
			return u, LitDuration, true
		}
	}
	for _, u := range sizeUnits {
		if strings.EqualFold(u.name, name) {
			return u, LitSize, true
		}
	}
	return unit{}, 0, false
}

// nearestUnit returns the unit probably meant by a wrong name, or "".
func nearestUnit(name string) string {
	if u, ok := otherSpelling[strings.ToLower(name)]; ok {
		return u
	}
	if u, _, ok := findUnit(name); ok {
		return u.name
	}
	return ""
}

// inUnits formats n in the largest unit that divides it.
func inUnits(n int64, units []unit) string {
	smallest := units[len(units)-1]
	if n == 0 {
		return "0" + smallest.name
	}
	for _, u := range units {
		if n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + smallest.name
}

// numberEnd returns the length of the number that s begins with, without its unit.
func numberEnd(s string) int {
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') && isHex(s[2]) {
		n := 3
		for n < len(s) && isHex(s[n]) {
			n++
		}
		return n
	}
	digits := func(n int) int {
		for n < len(s) && isDigit(s[n]) {
			n++
		}
		return n
	}
	n := digits(0)
	if n+1 < len(s) && s[n] == '.' && isDigit(s[n+1]) {
		n = digits(n + 1)
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		exponent := n + 1
		if exponent < len(s) && (s[exponent] == '+' || s[exponent] == '-') {
			exponent++
		}
		if end := digits(exponent); end > exponent {
			n = end
		}
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// number parses a number with an optional % or unit after it, and an optional minus sign
// before it.
func number(s string) (*Literal, *Error) {
	l := &Literal{}
	if err := l.parse(s); err != nil {
		return nil, err
	}
	return l, nil
}

// parse sets the literal to that of a number, as number describes it.
func (l *Literal) parse(s string) *Error {
	*l = Literal{Text: s}
	unsigned := strings.TrimPrefix(s, "-")
	digits := unsigned[:numberEnd(unsigned)]
	suffix := unsigned[len(digits):]
	digits = s[:len(s)-len(suffix)] // with the sign
	switch {
	case suffix == "%":
		l.Kind = LitPercent
		return l.float(digits)
	case suffix != "":
		u, kind, ok := findUnit(suffix)
		if !ok {
			e := &Error{Msg: fmt.Sprintf("unknown unit %s in %s", shorten(suffix), shorten(s)), Hint: "units of time are ns us ms s min h d, of size B KB KiB MB MiB GB GiB TB TiB"}
			if near := nearestUnit(suffix); near != "" {
				e.Hint = digits + near
			}
			return e
		}
		l.Kind = kind
		return l.scaled(digits, u)
	case strings.ContainsAny(digits, ".eE") && !isHexNumber(digits):
		l.Kind = LitFloat
		return l.float(digits)
	}
	l.Kind = LitInt
	if n, err := strconv.ParseInt(digits, base(digits), 64); err == nil {
		l.Int = n
		return nil
	}
	l.Kind = LitUnsigned
	n, err := strconv.ParseUint(digits, base(digits), 64)
	if err != nil {
		hint := "the largest is " + strconv.FormatUint(math.MaxUint64, 10)
		if unsigned != s {
			hint = "the smallest is " + strconv.Itoa(math.MinInt64)
		}
		return &Error{Msg: shorten(s) + " is too large a number", Hint: hint}
	}
	l.Int = int64(n)
	return nil
}

// base returns 10 even with a leading zero, by which users do not mean octal.
func base(digits string) int {
	if isHexNumber(digits) {
		return 0
	}
	return 10
}

func isHexNumber(digits string) bool {
	digits = strings.TrimPrefix(digits, "-")
	return len(digits) > 1 && digits[1]|0x20 == 'x'
}

func (l *Literal) float(digits string) *Error {
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return &Error{Msg: shorten(l.Text) + " is too large a number"}
	}
	l.F = f
	return nil
}

// maxScaled bounds the digits of a duration or a size: otherwise 1e999999999s would make
// the exact arithmetic below compute a number of that many digits.
const maxScaled = 40

// scaled sets the value, of 1.5s to 1,500,000,000: exactly, or it returns an error.
func (l *Literal) scaled(digits string, u unit) *Error {
	tooLarge := func() *Error {
		return &Error{Msg: shorten(l.Text) + " is too large", Hint: "the largest is " + strconv.FormatInt(math.MaxInt64/u.size, 10) + u.name}
	}
	if len(digits) > maxScaled || strings.ContainsAny(digits, "eE") && !isHexNumber(digits) {
		return &Error{Msg: shorten(l.Text) + " has a unit after a number with an exponent or very many digits", Hint: "write the digits out, or take another unit"}
	}
	if n, ok := scaledPlain(digits, u.size); ok {
		l.Int = n
		return nil
	}
	x, ok := new(big.Rat).SetString(digits)
	if !ok {
		return tooLarge()
	}
	x.Mul(x, new(big.Rat).SetInt64(u.size))
	switch {
	case !x.IsInt():
		smallest := "nanoseconds"
		if l.Kind == LitSize {
			smallest = "bytes"
		}
		return &Error{Msg: fmt.Sprintf("%s is not a whole number of %s", shorten(l.Text), smallest)}
	case !x.Num().IsInt64():
		return tooLarge()
	}
	l.Int = x.Num().Int64()
	return nil
}

// maxPlainDigits is the longest number, with its unit, that scaledPlain can convert.
const maxPlainDigits = 18

// scaledPlain returns digits * size without the memory of exact arithmetic; ok is false if
// that is not simple.
func scaledPlain(digits string, size int64) (n int64, ok bool) {
	whole, fraction, _ := strings.Cut(digits, ".")
	if len(digits) > maxPlainDigits || isHexNumber(digits) && fraction != "" {
		return 0, false
	}
	base, divisor := 10, uint64(1)
	if isHexNumber(digits) {
		base = 0
	}
	var value uint64
	if whole != "" {
		v, err := strconv.ParseUint(whole, base, 64)
		if err != nil {
			return 0, false
		}
		value = v
	}
	for i := range len(fraction) {
		value, divisor = 10*value+uint64(fraction[i]-'0'), 10*divisor
	}
	high, low := bits.Mul64(value, uint64(size))
	if high >= divisor {
		return 0, false
	}
	quotient, rest := bits.Div64(high, low, divisor)
	return int64(quotient), rest == 0 && quotient <= math.MaxInt64
}

// isUnitWord reports whether a word apart from its number is a unit of time. One letter that
// has several meanings is not: m, in 5 m.
func isUnitWord(word string) bool {
	if _, kind, ok := findUnit(word); ok {
		return kind == LitDuration
	}
	_, kind, ok := findUnit(otherSpelling[strings.ToLower(word)])
	return ok && kind == LitDuration && len(word) > 1
}

// intervalText parses INTERVAL 'n unit ...' from its string in quotes: '5 s',
// '1 minute 30 seconds', '1h30min'. It returns nil if that is not a duration.
func intervalText(quoted string) *Literal {
	rest := strings.TrimSpace(unquoteString(quoted))
	l := &Literal{Kind: LitDuration, Text: "INTERVAL " + quoted}
	for parts := 0; rest != "" || parts == 0; parts++ {
		unsigned := strings.TrimPrefix(rest, "-")
		if unsigned == "" || !isDigit(unsigned[0]) {
			return nil
		}
		digits := rest[:len(rest)-len(unsigned)+numberEnd(unsigned)]
		rest = strings.TrimSpace(rest[len(digits):])
		unit := rest[:wordEnd(rest)]
		u, kind, ok := findUnit(nearestUnit(unit))
		if !ok || kind != LitDuration {
			return nil
		}
		rest = strings.TrimSpace(rest[len(unit):])
		part := &Literal{Kind: LitDuration, Text: digits + unit}
		if part.scaled(digits, u) != nil {
			return nil
		}
		sum := l.Int + part.Int
		if (part.Int > 0) == (sum < l.Int) && part.Int != 0 {
			return nil // overflow
		}
		l.Int = sum
	}
	return l
}

// interval parses INTERVAL 'n' UNIT from its number, in quotes or not, and its unit.
func interval(digits, unitName string) (*Literal, *Error) {
	value := digits
	if digits[0] == '\'' {
		value = strings.TrimSpace(unquoteString(digits))
	}
	u, kind, ok := findUnit(nearestUnit(unitName))
	if !ok || kind != LitDuration {
		return nil, &Error{Msg: fmt.Sprintf("unknown unit %s of an INTERVAL", shorten(unitName)), Hint: "INTERVAL " + shorten(digits) + " SECOND, or " + shorten(value) + "s"}
	}
	unsigned := strings.TrimPrefix(value, "-")
	if unsigned == "" || !isDigit(unsigned[0]) || numberEnd(unsigned) != len(unsigned) {
		return nil, &Error{Msg: fmt.Sprintf("INTERVAL %s is not a number of %ss", shorten(digits), strings.ToLower(unitName)), Hint: "INTERVAL '1' " + strings.ToUpper(unitName)}
	}
	l := &Literal{Kind: LitDuration, Text: "INTERVAL " + digits + " " + strings.ToUpper(unitName)}
	if err := l.scaled(value, u); err != nil {
		return nil, err
	}
	return l, nil
}

func quoteString(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// unquoteString returns the value of a string as written with quotes.
func unquoteString(s string) string {
	return strings.ReplaceAll(s[1:len(s)-1], "''", "'")
}

// maxShown is the largest number of characters of the user's text in a message.
const maxShown = 40

func shorten(s string) string {
	if most := 16 * maxShown; len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	s = strings.Join(strings.Fields(printable(s)), " ")
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown]) + "…"
	}
	return s
}
