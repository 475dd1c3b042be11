package repl

import (
	"context"
	"embed"
	"fmt"
	"path"
	"strings"
)

// examples are example queries: each file has a line with the question and a
// statement. \i reads them as files of a directory examples.
//
//go:embed examples/*.sql
var examples embed.FS

const examplesDir = "examples"

// example returns the text of the example with that path or path prefix; false if
// there is none.
func example(name string) (text string, ok bool) {
	if path.Dir(name) != examplesDir {
		return "", false
	}
	if path.Ext(name) == "" {
		name += ".sql"
	}
	b, err := examples.ReadFile(name)
	return string(b), err == nil
}

// exampleNames returns the names of the examples as accepted by \i.
func exampleNames() (names []string) {
	files, _ := examples.ReadDir(examplesDir) // embedded: cannot fail
	for _, f := range files {
		names = append(names, path.Join(examplesDir, strings.TrimSuffix(f.Name(), ".sql")))
	}
	return names
}

// listExamples lists the examples, or shows one.
func (s *Shell) listExamples(_ context.Context, name string) error {
	if name != "" {
		text, ok := example(path.Join(examplesDir, path.Base(name)))
		if !ok {
			return mistake(`\examples lists them`, `there is no example %s`, name)
		}
		fmt.Fprint(s.run.Err, text)
		return nil
	}
	for _, n := range exampleNames() {
		text, _ := example(n)
		about, _, _ := strings.Cut(strings.TrimPrefix(text, "-- "), "\n")
		fmt.Fprintf(s.run.Err, "  %-34s %s\n", n, about)
	}
	fmt.Fprintln(s.run.Err, `\examples NAME shows one, \i examples/NAME runs it. They ask about the program that USE names; put your functions in the place of theirs.`)
	return nil
}
