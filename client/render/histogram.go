package render

import (
	"bytes"

	"endoscope/planner/types"
)

// bucket is an element of a HISTOGRAM: [low, high, count].
type bucket struct {
	low, high types.Value
	count     int64
}

// histogramOf returns the buckets of a list with the shape of a histogram, or nil.
func histogramOf(vs []types.Value) []bucket {
	buckets := make([]bucket, 0, len(vs))
	for _, v := range vs {
		e, ok := v.A.([]types.Value)
		if !ok || len(e) != 3 || e[2].Type != types.Bigint || e[2].IsNull || e[2].I < 0 || !bound(e[0]) || !bound(e[1]) {
			return nil
		}
		buckets = append(buckets, bucket{e[0], e[1], e[2].I})
	}
	if len(buckets) == 0 {
		return nil
	}
	return buckets
}

// bound reports whether v can bound a bucket: a number, or NULL for an open end.
func bound(v types.Value) bool {
	return v.IsNull || v.Type.Numeric() || v.Type == types.Timestamp
}

// barWidth is the bar length of the fullest bucket, in cells.
const barWidth = 40

// appendHistogram draws a bucket a line, as bpftrace does:
//
//	[1.02us, 2.05us)  123 |@@@@@@@@            |
func (c *clock) appendHistogram(dst []byte, buckets []bucket) []byte {
	labels, counts := make([][]byte, len(buckets)), make([][]byte, len(buckets))
	var widest, longest int
	var most int64
	for i, b := range buckets {
		labels[i] = c.appendRange(nil, b)
		counts[i] = c.appendHuman(nil, types.Int(b.count))
		widest = max(widest, len(labels[i]))
		longest = max(longest, len(counts[i]))
		most = max(most, b.count)
	}
	for i, b := range buckets {
		if i > 0 {
			dst = append(dst, '\n')
		}
		dst = append(dst, labels[i]...)
		dst = appendRepeat(dst, ' ', widest-len(labels[i])+1+longest-len(counts[i]))
		dst = append(dst, counts[i]...)
		dst = append(dst, " |"...)
		full := 0
		if most > 0 {
			full = int(float64(b.count) / float64(most) * barWidth)
		}
		dst = appendRepeat(dst, '@', full)
		dst = appendRepeat(dst, ' ', barWidth-full)
		dst = append(dst, '|')
	}
	return dst
}

func (c *clock) appendRange(dst []byte, b bucket) []byte {
	if b.low.IsNull {
		dst = append(dst, "(..."...)
	} else {
		dst = c.appendBound(append(dst, '['), b.low)
	}
	dst = append(dst, ", "...)
	if b.high.IsNull {
		return append(dst, "...)"...)
	}
	return append(c.appendBound(dst, b.high), ')')
}

// appendBound writes a bound without the zeros that align durations elsewhere: 1us,
// not 1.00us.
func (c *clock) appendBound(dst []byte, v types.Value) []byte {
	from := len(dst)
	dst = c.appendHuman(dst, v)
	if v.Type != types.Duration {
		return dst
	}
	dot, unit := bytes.IndexByte(dst[from:], '.'), len(dst)
	if dot < 0 {
		return dst
	}
	for dst[unit-1] < '0' || dst[unit-1] > '9' {
		unit--
	}
	end := unit
	for dst[end-1] == '0' {
		end--
	}
	if end-1 == from+dot {
		end--
	}
	return append(dst[:end], dst[unit:]...)
}

func appendRepeat(dst []byte, c byte, n int) []byte {
	for ; n > 0; n-- {
		dst = append(dst, c)
	}
	return dst
}
