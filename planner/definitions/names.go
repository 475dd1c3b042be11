package definitions

import "strings"

// Each user has a name space of streams, triggers and models. Definitions are stored
// under qualified names, owner.name, in which name has no dot. The engine's own user
// has the owner "" and names without a dot.

// Qualify returns the qualified name of an owner's definition.
func Qualify(owner, name string) string {
	if owner == "" {
		return name
	}
	return owner + "." + name
}

// Split returns the parts of a qualified name. An owner may contain dots.
func Split(qualified string) (owner, name string) {
	if i := strings.LastIndexByte(qualified, '.'); i >= 0 {
		return qualified[:i], qualified[i+1:]
	}
	return "", qualified
}

// Scope resolves names as one user writes them. A definition may hold private data, so
// for users who do not see its owner it does not exist.
type Scope struct {
	Owner string                  // whose definitions are named without an owner
	Sees  func(owner string) bool // whose definitions are visible; nil: all
}

// Resolve returns the qualified name that a name stands for; "" if it can stand for
// no visible definition.
func (s Scope) Resolve(name string) string {
	if !strings.Contains(name, ".") {
		return Qualify(s.Owner, name)
	}
	if !s.Has(name) {
		return ""
	}
	return name
}

// Has reports whether the owner of a qualified name is visible.
func (s Scope) Has(qualified string) bool {
	owner, _ := Split(qualified)
	return owner == s.Owner || s.Sees == nil || s.Sees(owner)
}

// Shown returns a qualified name as the user writes it.
func (s Scope) Shown(qualified string) string {
	if owner, name := Split(qualified); owner == s.Owner {
		return name
	}
	return qualified
}

// Visible returns those of some qualified names that are visible, as the user writes
// them.
func (s Scope) Visible(qualified []string) []string {
	var out []string
	for _, q := range qualified {
		if s.Has(q) {
			out = append(out, s.Shown(q))
		}
	}
	return out
}

// Elsewhere returns up to 3 of some visible names that end in name after an owner: what
// a user may have meant who left out the owner.
func Elsewhere(name string, visible []string) []string {
	var out []string
	for _, v := range visible {
		if owner, n := Split(v); owner != "" && n == name && len(out) < 3 {
			out = append(out, v)
		}
	}
	return out
}
