package client

import (
	"math"
	"testing"
)

// A UBIGINT is stored in variables that have room for it.
func TestScanUnsigned(t *testing.T) {
	var (
		i int
		n int64
		u uint64
		f float64
		a any
		p *uint64
	)
	for _, dest := range []any{&i, &n, &u, &f, &a, &p} {
		if err := assign(dest, uint64(7)); err != nil {
			t.Error(err)
		}
	}
	if i != 7 || n != 7 || u != 7 || f != 7 || a != uint64(7) || p == nil || *p != 7 {
		t.Error(i, n, u, f, a, p)
	}
	const large = uint64(math.MaxUint64)
	for _, dest := range []any{&i, &n} {
		if err := assign(dest, large); err == nil {
			t.Errorf("%d was stored in a %T", large, dest)
		}
	}
	if err := assign(&u, large); err != nil || u != large {
		t.Error(u, err)
	}
	if err := assign(&u, int64(-1)); err == nil {
		t.Error("-1 was stored in a uint64")
	}
	if err := assign(&p, nil); err != nil || p != nil {
		t.Error(p, err)
	}
}
