package render

import (
	"math"
	"strconv"

	"endoscope/planner/types"
)

// HumanDuration formats ns as in tables: three digits and a unit (999ns, 1.23ms,
// 45.6s), from a minute on two units (1min23s, 2h05min, 3d04h).
func HumanDuration(ns int64) string { return string(appendHumanDuration(nil, ns)) }

func appendHumanDuration(dst []byte, ns int64) []byte {
	u := uint64(ns)
	if ns < 0 {
		dst = append(dst, '-')
		u = -u
	}
	const second, minute, hour, day = 1e9, 60e9, 3600e9, 86400e9
	switch {
	case u < 1000:
		return append(strconv.AppendUint(dst, u, 10), "ns"...)
	case u < 999_500:
		return append(appendThreeDigits(dst, float64(u)/1e3), "us"...)
	case u < 999_500_000:
		return append(appendThreeDigits(dst, float64(u)/1e6), "ms"...)
	case u < 59_950_000_000:
		return append(appendThreeDigits(dst, float64(u)/1e9), "s"...)
	case u < hour-second/2:
		u = (u + second/2) / second
		return appendTwoUnits(dst, u/60, "min", u%60, "s")
	case u < day-minute/2:
		u = (u + minute/2) / minute
		return appendTwoUnits(dst, u/60, "h", u%60, "min")
	}
	u = (u + hour/2) / hour
	return appendTwoUnits(dst, u/24, "d", u%24, "h")
}

func appendThreeDigits(dst []byte, f float64) []byte {
	decimals := 2
	switch {
	case f >= 99.95:
		decimals = 0
	case f >= 9.995:
		decimals = 1
	}
	return strconv.AppendFloat(dst, f, 'f', decimals, 64)
}

func appendTwoUnits(dst []byte, a uint64, ua string, b uint64, ub string) []byte {
	dst = append(strconv.AppendUint(dst, a, 10), ua...)
	if b < 10 {
		dst = append(dst, '0')
	}
	return append(strconv.AppendUint(dst, b, 10), ub...)
}

// appendHumanFloat writes six digits, without an exponent if that is readable.
func appendHumanFloat(dst []byte, f float64) []byte {
	a := math.Abs(f)
	if a != 0 && (a < 1e-4 || a >= 1e15) || math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.AppendFloat(dst, f, 'g', 6, 64)
	}
	decimals := 6
	for x := a; x >= 10 && decimals > 1; x /= 10 {
		decimals--
	}
	dst = strconv.AppendFloat(dst, f, 'f', decimals, 64)
	n := len(dst)
	for dst[n-1] == '0' {
		n--
	}
	if dst[n-1] == '.' {
		n--
	}
	return dst[:n]
}

// appendHuman writes a value for people, possibly in several lines. NULL is empty.
func (c *clock) appendHuman(dst []byte, v types.Value) []byte {
	if v.IsNull {
		return dst
	}
	switch v.Type {
	case types.Boolean:
		return strconv.AppendBool(dst, v.I != 0)
	case types.Bigint, types.Ubigint:
		return v.Type.AppendInt(dst, v.I)
	case types.Duration:
		return appendHumanDuration(dst, v.I)
	case types.Timestamp:
		return c.append(dst, v.I, 6)
	case types.Double:
		return appendHumanFloat(dst, v.F)
	case types.Varchar:
		return appendEscaped(dst, v.S)
	case types.Bytes:
		return appendHex(dst, v.S)
	case types.Encoding:
		return appendEscapedBut(dst, encodingText(v), "\n")
	case types.List:
		vs, _ := v.A.([]types.Value)
		if buckets := histogramOf(vs); buckets != nil {
			return c.appendHistogram(dst, buckets)
		}
		dst = append(dst, '[')
		for i, e := range vs {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			if e.IsNull {
				dst = append(dst, "NULL"...)
			}
			dst = c.appendHuman(dst, e)
		}
		return append(dst, ']')
	}
	return dst
}
