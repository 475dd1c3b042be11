package encoders_test

import (
	"strings"
	"testing"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/structure"
)

// program replays calls: "f 10 20" enters f with arguments, "<" returns,
// "< 30" returns 30.
func program(t *testing.T, s *encoders.Selection, a *encoders.Alphabet, text string) {
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

func selected(s *encoders.Selection) string {
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
		scope encoders.Scope
		want  string
	}{
		// Address 100 is two objects; what is not alive has no sequence.
		{encoders.External, `Stack::Stack Base::Base < < Stack::push < Stack::push < Stack::~Stack Base::~Base < <
Stack::Stack < ...
Stack::Stack < Stack::pop < ...`},
		{encoders.Inner, `Stack::Stack Base::Base < malloc < < Stack::push List::add < < Stack::push < Stack::~Stack Base::~Base < <
Stack::Stack < ...
Stack::Stack < Stack::pop < ...`},
	} {
		a := encoders.NewAlphabet()
		roles := map[encoders.Symbol][]encoders.Role{}
		for name, kind := range map[string]encoders.RoleKind{
			"Stack::Stack": encoders.Birth, "Base::Base": encoders.Birth, "Stack::push": encoders.Use, "Stack::pop": encoders.Use, "Stack::~Stack": encoders.Death, "Base::~Base": encoders.Death,
		} {
			roles[a.Symbol(name)] = []encoders.Role{{Kind: kind, Argument: 0}}
		}
		s := encoders.NewSelection(roles, c.scope, encoders.Limits{}, func() encoders.Encoder { return encoders.NewCallStringEncoder(a, encoders.Limits{}) })
		program(t, s, a, calls)
		if got := selected(s); got != c.want {
			t.Errorf("scope %d:\n%s\nwant\n%s", c.scope, got, c.want)
		}
	}
}

func TestSelectionOfLibraries(t *testing.T) {
	a := encoders.NewAlphabet()
	roles := map[encoders.Symbol][]encoders.Role{
		a.Symbol("fopen"):   {{Kind: encoders.Birth, Argument: encoders.Result}},
		a.Symbol("fprintf"): {{Kind: encoders.Use, Argument: 0}},
		a.Symbol("fread"):   {{Kind: encoders.Use, Argument: 3}},
		a.Symbol("fclose"):  {{Kind: encoders.Death, Argument: 0}},
	}
	s := encoders.NewSelection(roles, encoders.External, encoders.Limits{}, func() encoders.Encoder { return encoders.NewCallStringEncoder(a, encoders.Limits{}) })
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
	a := encoders.NewAlphabet()
	construct := a.Symbol("T::T")
	s := encoders.NewSelection(map[encoders.Symbol][]encoders.Role{construct: {{Kind: encoders.Birth, Argument: 0}}}, encoders.External, encoders.Limits{Budget: 10_000}, func() encoders.Encoder { return structure.NewRunLengths(a, structure.RLEOptions{}, encoders.Limits{}) })
	for i := range 1000 {
		s.Enter(1, construct, []uint64{uint64(i)}, 0)
		s.Leave(1, 0, 0)
	}
	if n := int64(len(s.Finish())); n == 0 || n > 100 || n+s.Unfollowed() != 1000 {
		t.Errorf("%d followed, %d not", n, s.Unfollowed())
	}
}
