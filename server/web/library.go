package web

import (
	"context"
	"embed"
	"strings"
)

//go:embed library/*.sql
var libraryFiles embed.FS

// entry is a query of the library: the question, the languages of the programs to which
// it can be put, and the statement.
type entry struct {
	Name      string   `json:"name"`
	Question  string   `json:"question"`
	Languages []string `json:"languages"`
	Text      string   `json:"text"`
}

// library returns the queries in the order of their names.
func (p *page) library(context.Context, ask) (any, error) { return entries(), nil }

func entries() (all []entry) {
	files, _ := libraryFiles.ReadDir("library") // embedded: cannot fail
	for _, f := range files {
		body, _ := libraryFiles.ReadFile("library/" + f.Name())
		all = append(all, entryOf(strings.TrimSuffix(f.Name(), ".sql"), string(body)))
	}
	return all
}

// entryOf reads a file of the library: a line with the question, a line with the
// languages, and the statement.
func entryOf(name, body string) entry {
	question, rest, _ := strings.Cut(body, "\n")
	languages, text, _ := strings.Cut(rest, "\n")
	return entry{
		Name:      name,
		Question:  strings.TrimPrefix(question, "-- "),
		Languages: strings.Fields(strings.TrimPrefix(languages, "-- ")),
		Text:      strings.TrimSpace(text),
	}
}
