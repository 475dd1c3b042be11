package symbols

import (
	"bytes"
	"fmt"
	"strings"
)

// siteAt makes a site of a candidate of f.
func (m *Module) siteAt(f *function, code []byte, c candidate) (Site, error) {
	if c.refused != nil {
		in, err := decode(code[c.pos:])
		if err != nil {
			return Site{}, err
		}
		begins := "begins with"
		if c.pos > 0 {
			begins = "has, where it could be probed,"
		}
		return Site{}, fmt.Errorf("%s `%s`, which %w", begins, in.syntax(f.addr+uint64(c.pos)), c.refused)
	}
	return Site{
		Offset:    m.offsetOf(f.addr) + uint64(c.pos),
		Addr:      f.addr + uint64(c.pos),
		Method:    c.method,
		PastEntry: c.pos > 0,
		SPOffset:  c.depth,
		Bytes:     bytes.Clone(code[c.pos : c.pos+c.len]),
	}, nil
}

// variants names functions that an indirect function may choose, as a hint.
func (m *Module) variants(i int) string {
	const most = 4
	f := m.Function(i)
	names := append([]string{f.Name}, f.Aliases...)
	found := make([][]string, len(names))
	for j, other := range m.All() {
		for k, name := range names {
			variant, ok := strings.CutPrefix(other.Name, "__"+strings.TrimLeft(name, "_")+"_")
			if ok && isInstructionSet(variant) && !m.IFunc(j) && len(found[k]) < most {
				found[k] = append(found[k], other.Name)
			}
		}
	}
	for _, list := range found {
		if len(list) > 0 {
			return "; probe a variant: " + strings.Join(list, ", ")
		}
	}
	return ""
}

// isInstructionSet reports whether the suffix of a name says for which
// processors a variant is, as the C library's suffixes do.
func isInstructionSet(suffix string) bool {
	for _, set := range []string{"sse", "ssse", "avx", "evex", "erms", "generic"} {
		if strings.HasPrefix(suffix, set) {
			return true
		}
	}
	return false
}
