package encoders

import (
	"strings"
	"testing"
)

// program replays calls: "f 10 20" enters f with arguments, "<" returns,
// "< 30" returns 30.
func program(t *testing.T, s *Selection, a *Alphabet, text string) {
	t.Helper()
	number := func(word string) uint64 {
		var n uint64
		for _, c := range word {
			n = 10*n + uint64(c-'0')
		}
		return n
	}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(line)
		thread := int64(number(words[0]))
		var arguments []uint64
		for _, w := range words[2:] {
			arguments = append(arguments, number(w))
		}
		if words[1] != "<" {
			s.Enter(thread, a.Symbol(words[1]), arguments, int64(i))
			continue
		}
		s.Leave(thread, append(arguments, 0)[0], int64(i))
	}
}

func selected(s *Selection) string {
	var lines []string
	for _, e := range s.Finish() {
		line := e.String()
		if e.Of().Truncated > 0 {
			line += " ..."
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestSelectionOfObjects(t *testing.T) {
	const calls = `
		1 main
		1 Stack::Stack 100
		1 Base::Base 100
		1 <
		1 malloc 8
		1 < 500
		1 <
		1 Stack::push 100 7
		1 List::add 500 7
		1 <
		1 <
		2 Stack::push 100 8
		1 Stack::Stack 200
		2 <
		1 <
		1 Stack::pop 300
		1 <
		1 Stack::~Stack 100
		1 Base::~Base 100
		1 <
		1 <
		1 Stack::push 100 9
		1 <
		1 Stack::Stack 100
		1 <
		1 Stack::pop 100
		1 <
		1 <`
	for _, c := range []struct {
		scope Scope
		want  string
	}{
		// Address 100 is two objects; what is not alive has no sequence.
		{External, `Stack::Stack Base::Base < < Stack::push < Stack::push < Stack::~Stack Base::~Base < <
Stack::Stack < ...
Stack::Stack < Stack::pop < ...`},
		{Inner, `Stack::Stack Base::Base < malloc < < Stack::push List::add < < Stack::push < Stack::~Stack Base::~Base < <
Stack::Stack < ...
Stack::Stack < Stack::pop < ...`},
	} {
		a := NewAlphabet()
		roles := map[Symbol][]Role{}
		for name, kind := range map[string]RoleKind{
			"Stack::Stack": Birth, "Base::Base": Birth, "Stack::push": Use, "Stack::pop": Use, "Stack::~Stack": Death, "Base::~Base": Death,
		} {
			roles[a.Symbol(name)] = []Role{{kind, 0}}
		}
		s := NewSelection(roles, c.scope, Limits{}, func() Encoder { return NewCallStringEncoder(a, Limits{}) })
		program(t, s, a, calls)
		if got := selected(s); got != c.want {
			t.Errorf("scope %d:\n%s\nwant\n%s", c.scope, got, c.want)
		}
	}
}

func TestSelectionOfLibraries(t *testing.T) {
	a := NewAlphabet()
	roles := map[Symbol][]Role{
		a.Symbol("fopen"):   {{Birth, Result}},
		a.Symbol("fprintf"): {{Use, 0}},
		a.Symbol("fread"):   {{Use, 3}},
		a.Symbol("fclose"):  {{Death, 0}},
	}
	s := NewSelection(roles, External, Limits{}, func() Encoder { return NewCallStringEncoder(a, Limits{}) })
	program(t, s, a, `
		1 fopen 1
		1 open 1
		1 <
		1 < 70
		1 fopen 2
		1 < 0
		1 fopen 3
		1 < 80
		1 fread 9 1 1 70
		1 <
		1 fprintf 80
		1 <
		1 fclose 70
		1 <
		1 fopen 1
		1 < 70
		1 fclose 70
		1 <`)
	want := `fopen < fread < fclose <
fopen < fprintf < ...
fopen < fclose <`
	if got := selected(s); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestSelectionBudget(t *testing.T) {
	a := NewAlphabet()
	construct := a.Symbol("T::T")
	s := NewSelection(map[Symbol][]Role{construct: {{Birth, 0}}}, External, Limits{Budget: 10_000}, func() Encoder { return NewRunLengths(a, RLEOptions{}, Limits{}) })
	for i := range 1000 {
		s.Enter(1, construct, []uint64{uint64(i)}, 0)
		s.Leave(1, 0, 0)
	}
	if n := int64(len(s.Finish())); n == 0 || n > 100 || n+s.Unfollowed() != 1000 {
		t.Errorf("%d followed, %d not", n, s.Unfollowed())
	}
}
