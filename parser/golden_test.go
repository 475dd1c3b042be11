package parser

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Golden files; go test -rewrite writes the parser's current output.

// TestGoldenParse reads testdata/parse. Its directives:
//
//	parse   the statements in canonical form
//	tree    the statements in canonical form, and their trees
//	spans   each node with the text that it was read from
func TestGoldenParse(t *testing.T) {
	datadriven.Walk(t, "testdata/parse", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			statements, err := parseAll(d.Input)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			var out strings.Builder
			for _, s := range statements {
				roundTrip(t, s)
				switch d.Cmd {
				case "parse":
					fmt.Fprintln(&out, s)
				case "tree":
					fmt.Fprintln(&out, s)
					writeTree(&out, reflect.ValueOf(s), "", 1)
				case "spans":
					writeSpans(&out, d.Input, reflect.ValueOf(s), 0)
				default:
					d.Fatalf(t, "unknown directive %s", d.Cmd)
				}
			}
			return out.String()
		})
	})
}

// TestGoldenErrors reads testdata/errors, whose statements are all wrong: each
// line, or with the argument "whole", the text.
func TestGoldenErrors(t *testing.T) {
	datadriven.Walk(t, "testdata/errors", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			sources := strings.Split(d.Input, "\n")
			if d.HasArg("whole") {
				sources = []string{d.Input}
			}
			var out strings.Builder
			for _, src := range sources {
				_, err := parseAll(src)
				if err == nil {
					d.Fatalf(t, "%s is a correct statement", src)
				}
				checkError(t, src, err)
				fmt.Fprintln(&out, err)
			}
			return out.String()
		})
	})
}

// parseAll parses statements separated by semicolons. Positions count from the beginning of
// src. At the first error it returns that and the statements before it.
func parseAll(src string) ([]Statement, error) {
	tokens, err := tokenize(src)
	if err != nil {
		return nil, err
	}
	var all []Statement
	for _, piece := range cut(tokens) {
		s, err := parsePiece(src, piece)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

// checkError checks the properties of every error of the parser.
func checkError(t testing.TB, src string, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%q: a %T", src, err)
	}
	if e.Pos.Start < 0 || e.Pos.Stop < e.Pos.Start || e.Pos.Stop > len(src) {
		t.Errorf("%q: %s: its place %v lies outside the text", src, e.Msg, e.Pos)
	}
	if e.Src != src || !e.Syntax {
		t.Errorf("%q: %s: the text is not with it", src, e.Msg)
	}
	// A message does not end in a full stop, unless that is the user's.
	if e.Msg == "" || strings.Contains(e.Msg, "\n") || strings.HasSuffix(strings.TrimSuffix(e.Msg, src[e.Pos.Start:e.Pos.Stop]), ".") {
		t.Errorf("%q: the message is %q", src, e.Msg)
	}
	for _, internal := range []string{"unexpected token", "sub-expression", "Leaf", "Rule", "tok", "parser.", "%!"} {
		if strings.Contains(e.Msg+e.Hint, internal) && !strings.Contains(src, internal) {
			t.Errorf("%q: %s: %s speaks of %q", src, e.Msg, e.Hint, internal)
		}
	}
}

// writeTree writes a tree with a line for each node: its field, its type and
// what it holds.
func writeTree(out *strings.Builder, v reflect.Value, field string, depth int) {
	v = reflect.Indirect(elem(v))
	fmt.Fprintf(out, "%*s%s%s", 2*depth, "", field, v.Type().Name())
	type child struct {
		name  string
		value reflect.Value
	}
	var children []child
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, elem(v.Field(i))
		switch {
		case name == "Span", name == "OpPos", f.IsZero():
		case f.Kind() == reflect.Slice:
			for j := range f.Len() {
				children = append(children, child{name + ": ", f.Index(j)})
			}
		case f.Kind() == reflect.Pointer:
			children = append(children, child{name + ": ", f})
		case f.Kind() == reflect.Bool:
			fmt.Fprintf(out, " %s", name)
		case f.Kind() == reflect.String:
			fmt.Fprintf(out, " %s=%s", name, f)
		case f.Type() == reflect.TypeFor[LiteralKind]():
			fmt.Fprintf(out, " %s", kindNames[f.Interface().(LiteralKind)])
		case f.Type() == reflect.TypeFor[SourceKind]():
			fmt.Fprintf(out, " %s", sourceName[f.Interface().(SourceKind)])
		default:
			fmt.Fprintf(out, " %s=%v", name, f)
		}
	}
	out.WriteByte('\n')
	for _, c := range children {
		writeTree(out, c.value, c.name, depth+1)
	}
}

var kindNames = [...]string{"null", "bool", "int", "float", "percent", "duration", "size", "string", "unsigned"}

// writeSpans writes each node of a tree with the text that it was read from.
func writeSpans(out *strings.Builder, src string, v reflect.Value, depth int) {
	v = elem(v)
	if n, ok := v.Interface().(Node); ok {
		pos := n.Pos()
		fmt.Fprintf(out, "%*s%s %s\n", 2*depth, "", reflect.Indirect(v).Type().Name(), strings.Join(strings.Fields(src[pos.Start:pos.Stop]), " "))
	}
	v = reflect.Indirect(v)
	for i := range v.NumField() {
		f := elem(v.Field(i))
		switch {
		case f.Kind() == reflect.Slice:
			for j := range f.Len() {
				writeSpans(out, src, f.Index(j), depth+1)
			}
		case f.Kind() == reflect.Pointer && !f.IsNil():
			writeSpans(out, src, f, depth+1)
		}
	}
}

// elem opens an interface.
func elem(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface && !v.IsNil() {
		return v.Elem()
	}
	return v
}
