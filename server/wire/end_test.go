package wire

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestBrokenIsNoEnd(t *testing.T) {
	other := errors.New("other")
	for _, c := range []struct {
		in   error
		want string
	}{
		{io.EOF, "unexpected EOF"},
		{fmt.Errorf("x.csv: %w", io.EOF), "x.csv: EOF"},
		{errors.Join(other, io.EOF), "other\nEOF"},
		{other, "other"},
	} {
		if got := Broken(c.in); got.Error() != c.want || errors.Is(got, io.EOF) {
			t.Errorf("%v: %v, want %s", c.in, got, c.want)
		}
	}
	if Broken(nil) != nil || Broken(other) != other {
		t.Error("another error has changed")
	}
}
