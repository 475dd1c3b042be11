package replay

import (
	"bytes"
	"math"
	"strconv"
)

// kind is the notation of a value.
type kind uint8

const (
	absent  kind = iota // NULL: an empty CSV field, a key that is missing or null
	plain               // a CSV field of any type
	quoted              // a JSON string, unescaped
	number              // a JSON number
	boolean             // a JSON true or false
	nested              // a JSON array or object, as text
)

// cell is a value as written in the file.
type cell struct {
	kind kind
	text []byte
}

// parseInt parses a decimal BIGINT.
func parseInt(b []byte) (v int64, ok bool) {
	unsigned, negative := b, false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		unsigned, negative = b[1:], b[0] == '-'
	}
	if len(unsigned) > 19 { // leading zeros, or too large
		v, err := strconv.ParseInt(string(b), 10, 64)
		return v, err == nil
	}
	var u uint64 // holds any 19 digits
	for _, c := range unsigned {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	if negative {
		return -int64(u), len(unsigned) > 0 && u <= 1<<63
	}
	return int64(u), len(unsigned) > 0 && u < 1<<63
}

// parseUint parses a decimal UBIGINT.
func parseUint(b []byte) (bits int64, ok bool) {
	if v, ok := parseInt(b); ok {
		return v, v >= 0
	}
	u, err := strconv.ParseUint(string(bytes.TrimPrefix(b, []byte("+"))), 10, 64)
	return int64(u), err == nil
}

// integerLike reports whether b is written as an integer of any size.
func integerLike(b []byte) bool {
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	return len(b) > 0 && digits(b)
}

func digits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// parseFloat parses a decimal DOUBLE. Words (inf, nan), hexadecimal numbers and
// numbers too large are rejected.
func parseFloat(b []byte) (float64, bool) {
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil
}

// parseBool parses true or false, in any case.
func parseBool(b []byte) (v, ok bool) {
	switch {
	case equalFold(b, "true"):
		return true, true
	case equalFold(b, "false"):
		return false, true
	}
	return false, false
}

func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// maxSeconds is the last second of 64-bit ns since the epoch (in 2262), less one.
const maxSeconds = 1<<63/1_000_000_000 - 1

// parseSeconds parses decimal seconds since the epoch to ns: without exponent
// exactly, with digits beyond ns dropped.
func parseSeconds(b []byte) (ns int64, ok bool) {
	whole, fraction, _ := bytes.Cut(b, []byte{'.'})
	s, ok := parseInt(whole)
	if !ok || !digits(fraction) { // 1.7e9, .5
		v, ok := parseFloat(b)
		return int64(v * 1e9), ok && math.Abs(v) <= maxSeconds
	}
	scale := int64(1e9)
	for _, c := range fraction {
		scale /= 10
		ns += int64(c-'0') * scale
	}
	if b[0] == '-' {
		ns = -ns
	}
	return s*1e9 + ns, -maxSeconds <= s && s <= maxSeconds
}

// parseTime parses an RFC 3339 timestamp to ns since the epoch; digits beyond
// ns are dropped, as time.Parse does.
func parseTime(b []byte) (ns int64, ok bool) {
	if len(b) < len("2006-01-02T15:04:05Z") || b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' {
		return 0, false
	}
	century, ok0 := two(b[0:])
	year, ok1 := two(b[2:])
	month, ok2 := two(b[5:])
	day, ok3 := two(b[8:])
	hour, ok4 := two(b[11:])
	minute, ok5 := two(b[14:])
	second, ok6 := two(b[17:])
	year += 100 * century
	if !(ok0 && ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || month < 1 || month > 12 ||
		day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	b = b[19:]
	if b[0] == '.' {
		i := 1
		for scale := int64(1e9); i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
			scale /= 10
			ns += int64(b[i]-'0') * scale
		}
		if i == 1 {
			return 0, false
		}
		b = b[i:]
	}
	zone, ok := parseZone(b)
	s := ((daysSinceEpoch(year, month, day)*24+hour)*60+minute)*60 + second - zone
	return s*1e9 + ns, ok && -maxSeconds <= s && s <= maxSeconds
}

// parseZone parses Z or ±hh:mm to seconds east of Greenwich.
func parseZone(b []byte) (seconds int64, ok bool) {
	if len(b) == 1 && b[0] == 'Z' {
		return 0, true
	}
	if len(b) != len("+00:00") || b[0] != '+' && b[0] != '-' || b[3] != ':' {
		return 0, false
	}
	hour, ok1 := two(b[1:])
	minute, ok2 := two(b[4:])
	if !ok1 || !ok2 || hour > 23 || minute > 59 {
		return 0, false
	}
	seconds = (hour*60 + minute) * 60
	if b[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// two parses two digits.
func two(b []byte) (int64, bool) {
	hi, lo := b[0]-'0', b[1]-'0'
	return int64(hi)*10 + int64(lo), hi <= 9 && lo <= 9
}

func daysIn(year, month int64) int64 {
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 29
	}
	return [...]int64{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
}

// daysSinceEpoch counts days from 1970-01-01 in the Gregorian calendar: with
// years that begin in March, leap days come last (Hinnant, days_from_civil).
func daysSinceEpoch(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := year / 400 // years are not negative
	yearOfEra := year - era*400
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}
