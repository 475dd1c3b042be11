package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"endoscope/probes/debugfiles"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/selection"
	"endoscope/probes/usdt"
)

// strippedHint returns the hint for a function that is not found where a module has been
// stripped: where its names are, and what it has that can be monitored without them; "" if no
// module has been stripped.
func (r *resolver) strippedHint(opened []*elf.Module, set *selection.ModuleSet, name string) string {
	for _, m := range opened {
		id, stray, stripped := m.Stripped()
		if !stripped {
			continue
		}
		hint := m.Name() + " has been stripped of the names of functions that it does not export"
		switch where := debugfiles.Where(m); {
		case stray != "":
			hint += fmt.Sprintf(", and %s, which has names, is of another build", stray)
		case where != "":
			hint += "; a debug file would have them: " + where
		case id != "":
			hint += fmt.Sprintf("; a debug file for build-id %s under /usr/lib/debug would have them", id)
		default:
			continue
		}
		if notice := m.Notice(); notice != "" {
			hint += "; " + notice
		}
		if near := r.exported(m, opened, name); len(near) > 0 {
			hint += "; of those that it exports, " + strings.Join(near, ", ") + " are nearest"
		}
		if places := markedIn(set, m, name); len(places) > 0 {
			hint += fmt.Sprintf("; it has marked places such as %s (SHOW FUNCTIONS LIKE 'usdt:%%')", strings.Join(places, ", "))
		}
		return hint
	}
	return ""
}

// exported returns the exported functions of a module whose names resemble one or, if none does,
// have words of it.
func (r *resolver) exported(m *elf.Module, opened []*elf.Module, name string) []string {
	if near := r.nearestOf(opened, name); len(near) > 0 {
		return near
	}
	return bySharedWords(name, func(yield func(string)) {
		for _, f := range m.All() {
			if !f.Synthetic {
				yield(f.Name)
			}
		}
	})
}

// markedIn returns marked places of a module, those with words of name first.
func markedIn(set *selection.ModuleSet, m *elf.Module, name string) (out []string) {
	for _, file := range set.List {
		if file.Name() != m.Name() || file.File == nil {
			continue
		}
		list, err := usdt.Probes(file.File)
		if err != nil {
			continue
		}
		all := make([]string, len(list))
		for i := range list {
			all[i] = list[i].String()
		}
		slices.Sort(all)
		all = slices.Compact(all)
		out = bySharedWords(name, func(yield func(string)) {
			for _, s := range all {
				yield(s)
			}
		})
		for _, s := range all {
			if len(out) < nearestNames && !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// minWord is the length of the shortest word that says something.
const minWord = 4

// bySharedWords returns the names that share most letters of words with name.
func bySharedWords(name string, names func(yield func(string))) (out []string) {
	if len(name) > 256 {
		return nil
	}
	wanted := wordsOf(name)
	type match struct {
		name   string
		shared int
	}
	var best []match
	names(func(s string) {
		shared := 0
		low := strings.ToLower(s)
		for _, w := range wanted {
			if strings.Contains(low, w) {
				shared += len(w)
			}
		}
		if shared == 0 || len(best) == nearestNames && shared < best[nearestNames-1].shared {
			return
		}
		at, twice := slices.BinarySearchFunc(best, match{s, shared}, func(a, b match) int {
			return cmp.Or(cmp.Compare(b.shared, a.shared), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
		})
		if !twice {
			best = slices.Insert(best, at, match{s, shared})
			best = best[:min(len(best), nearestNames)]
		}
	})
	for _, b := range best {
		out = append(out, b.name)
	}
	return out
}

// wordsOf returns the words of a name, in lower case: foo_bar, fooBar and foo::bar have two.
func wordsOf(name string) (out []string) {
	word := []rune{}
	end := func() {
		if len(word) >= minWord && !slices.Contains(out, string(word)) {
			out = append(out, string(word))
		}
		word = word[:0]
	}
	lower := false
	for _, c := range name {
		if !unicode.IsLetter(c) || unicode.IsUpper(c) && lower {
			end()
		}
		if unicode.IsLetter(c) {
			word = append(word, unicode.ToLower(c))
		}
		lower = unicode.IsLower(c)
	}
	end()
	return out
}
