package enctest

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// CheckSVG returns an error if text is not an XML document with one svg element.
func CheckSVG(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	depth, roots := 0, 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if depth == 0 {
				roots++
				if tok.Name.Local != "svg" || tok.Name.Space != "http://www.w3.org/2000/svg" {
					return errors.New("the root is " + tok.Name.Local)
				}
			}
			depth++
		case xml.EndElement:
			depth--
		}
	}
	if roots != 1 || depth != 0 {
		return errors.New("there is not one svg element")
	}
	return nil
}

// CheckGolden compares got with a file of testdata/pictures; UPDATE_PICTURES=1 writes the
// file.
func CheckGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "pictures", name)
	if os.Getenv("UPDATE_PICTURES") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s, %v: got\n%s", path, err, got)
	}
}
