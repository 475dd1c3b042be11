package symbols

import (
	"bytes"
	"fmt"
	"strings"
)

// siteAt makes a site of a candidate of f.
func (m *Module) siteAt(f *Function, code []byte, c candidate) (Site, error) {
	in, err := decode(code[c.pos:])
	if err != nil {
		return Site{}, err
	}
	if c.refused != nil {
		begins := "begins with"
		if c.pos > 0 {
			begins = "has, where it could be probed,"
		}
		return Site{}, fmt.Errorf("%s `%s`, which %w", begins, in.syntax(f.Addr+uint64(c.pos)), c.refused)
	}
	return Site{
		Offset:    f.Offset + uint64(c.pos),
		Addr:      f.Addr + uint64(c.pos),
		Insn:      in.syntax(f.Addr + uint64(c.pos)),
		Method:    c.method,
		PastEntry: c.pos > 0,
		SPOffset:  c.depth,
		Bytes:     bytes.Clone(code[c.pos : c.pos+c.len]),
	}, nil
}

// variants names functions that an indirect function may choose, as a hint.
func (m *Module) variants(i int) string {
	const most = 4
	fns := m.Functions()
	var found []string
	for _, name := range append([]string{fns[i].Name}, fns[i].Aliases...) {
		prefix := "__" + strings.TrimLeft(name, "_") + "_"
		for j := range fns {
			variant, ok := strings.CutPrefix(fns[j].Name, prefix)
			if ok && isInstructionSet(variant) && !m.IFunc(j) && len(found) < most {
				found = append(found, fns[j].Name)
			}
		}
		if len(found) > 0 {
			return "; probe a variant: " + strings.Join(found, ", ")
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
