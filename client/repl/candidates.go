package repl

import (
	"context"
	"path"
	"slices"
	"strings"

	"endoscope/client/help"
	"endoscope/client/render"
	"endoscope/planner/completion"
	"endoscope/server/wire"
)

// candidates returns the completions of the word before the cursor, and that word.
// text is the whole input, cursor a byte offset in it.
func candidates(ctx context.Context, s wire.Session, text string, cursor int) (word string, found []completion.Candidate) {
	if before := strings.TrimLeft(text[:cursor], " \t\r\n"); strings.HasPrefix(before, `\`) {
		return commandCandidates(ctx, printable{s}, before)
	}
	return completion.At(ctx, printable{s}, text, cursor)
}

// printable has a session's names without those that hold control characters: the line
// that is edited is written to the terminal as it is.
type printable struct{ completion.Session }

func (p printable) Complete(ctx context.Context, kind, of, prefix string) []string {
	return slices.DeleteFunc(p.Session.Complete(ctx, kind, of, prefix), func(name string) bool {
		return render.Escape(name) != name || strings.ContainsAny(name, "\n\t")
	})
}

func commandCandidates(ctx context.Context, s completion.Session, before string) (word string, found []completion.Candidate) {
	name, arg, hasArg := strings.Cut(before, " ")
	if hasArg {
		switch name {
		case `\d`:
			for _, n := range s.Complete(ctx, "stream", "", arg) {
				found = append(found, completion.Candidate{Text: n, Kind: "stream"})
			}
		case `\help`, `\h`:
			for _, n := range help.Names() {
				if strings.HasPrefix(n, strings.ToLower(arg)) {
					found = append(found, completion.Candidate{Text: n, Kind: "topic"})
				}
			}
		case `\i`:
			found = exampleCandidates(arg, append(exampleNames(), savedNames()...))
		case `\examples`:
			var bare []string
			for _, n := range exampleNames() {
				bare = append(bare, path.Base(n))
			}
			found = exampleCandidates(arg, bare)
		}
		return arg, found
	}
	for _, c := range commands {
		if full := `\` + c.name; strings.HasPrefix(full, before) {
			found = append(found, completion.Candidate{Text: full, Kind: "command"})
		}
	}
	return before, found
}

// exampleCandidates returns the example names that begin with arg.
func exampleCandidates(arg string, names []string) (found []completion.Candidate) {
	for _, n := range names {
		if strings.HasPrefix(n, arg) {
			found = append(found, completion.Candidate{Text: n, Kind: "example"})
		}
	}
	return found
}
