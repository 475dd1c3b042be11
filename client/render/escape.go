package render

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// appendEscaped writes s for display: non-graphic characters are escaped (\n, \x1b,
// \u202e), so that no name can move the cursor, change colours, end a line or reverse
// the text direction.
func appendEscaped(dst []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); {
		if s[i] >= ' ' && s[i] < 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if unicode.IsGraphic(r) && (r != utf8.RuneError || n > 1) {
			i += n
			continue
		}
		dst = append(dst, s[from:i]...)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, '\\', 'x', hexDigits[s[i]>>4], hexDigits[s[i]&15])
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r < 0x80:
			dst = append(dst, '\\', 'x', hexDigits[r>>4], hexDigits[r&15])
		case r < 0x10000:
			dst = append(dst, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		default:
			dst = append(dst, '\\', 'U', '0', '0', hexDigits[r>>20&15], hexDigits[r>>16&15],
				hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		}
		i += n
		from = i
	}
	return append(dst, s[from:]...)
}

// Escape makes a message safe to print on a terminal, since messages quote names of
// the monitored program. Line ends and tabs are kept, as they align the caret with
// its column.
func Escape(s string) string {
	return string(appendEscapedBut(nil, s, "\n\t"))
}

// appendEscapedBut is appendEscaped that keeps the control characters in keep.
func appendEscapedBut(dst []byte, s, keep string) []byte {
	for len(s) > 0 {
		n := strings.IndexAny(s, keep)
		if n < 0 {
			return appendEscaped(dst, s)
		}
		dst = append(appendEscaped(dst, s[:n]), s[n])
		s = s[n+1:]
	}
	return dst
}

// width returns the number of terminal cells of escaped text.
func width(b []byte) int {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return uniseg.StringWidth(string(b))
		}
	}
	return len(b)
}

// clip cuts escaped text to at most n cells.
func clip(b []byte, n int) []byte {
	if len(b) <= n || width(b) <= n {
		return b
	}
	rest, state, used := b, -1, 0
	for len(rest) > 0 {
		_, next, cells, s := uniseg.FirstGraphemeCluster(rest, state)
		if used+cells > n {
			break
		}
		used += cells
		rest, state = next, s
	}
	return b[:len(b)-len(rest)]
}
