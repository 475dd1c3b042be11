package client

import (
	"fmt"
	"math"
	"time"
)

// assign stores a value returned by goValue where dest points to.
func assign(dest, v any) error {
	switch d := dest.(type) {
	case *uint64:
		if n, ok := v.(int64); ok && n >= 0 {
			v = uint64(n)
		}
		return into(d, v)
	case **uint64:
		return intoPointer(d, v)
	}
	if n, ok := v.(uint64); ok && n <= math.MaxInt64 {
		if _, ok := dest.(*any); !ok {
			v = int64(n)
		}
	}
	switch d := dest.(type) {
	case *any:
		*d = v
		return nil
	case *int:
		if n, ok := v.(int64); ok {
			*d = int(n)
			return nil
		}
	case *float64:
		switch n := v.(type) {
		case float64:
			*d = n
			return nil
		case int64:
			*d = float64(n)
			return nil
		case uint64:
			*d = float64(n)
			return nil
		}
	case *bool:
		return into(d, v)
	case *int64:
		return into(d, v)
	case *string:
		return into(d, v)
	case *time.Time:
		return into(d, v)
	case *time.Duration:
		return into(d, v)
	case *[]byte:
		return into(d, v)
	case *[]any:
		return into(d, v)
	case **bool:
		return intoPointer(d, v)
	case **int64:
		return intoPointer(d, v)
	case **float64:
		return intoPointer(d, v)
	case **string:
		return intoPointer(d, v)
	case **time.Time:
		return intoPointer(d, v)
	case **time.Duration:
		return intoPointer(d, v)
	}
	return mismatch(dest, v)
}

func into[T any](dest *T, v any) error {
	t, ok := v.(T)
	if !ok {
		return mismatch(dest, v)
	}
	*dest = t
	return nil
}

func intoPointer[T any](dest **T, v any) error {
	if v == nil {
		*dest = nil
		return nil
	}
	*dest = new(T)
	return into(*dest, v)
}

func mismatch(dest, v any) error {
	if v == nil {
		return fmt.Errorf("cannot store NULL in a %T", dest)
	}
	return fmt.Errorf("cannot store a %T in a %T", v, dest)
}
