package signature

import (
	"debug/dwarf"
	"errors"

	"endoscope/probes/dwarf/op"
)

var (
	errNotAtEntry = errors.New("is not where it can be read when the function is entered")
	errDamaged    = errors.New("has damaged debug information")
	errEntryOnly  = errors.New("is only known as what was passed in a register that has been used for something else since (DW_OP_entry_value)")
	errStatic     = errors.New("is static, and has an address of its own: WHERE var_name = 'function::name' watches it")
	errComputed   = errors.New("is computed by its location expression in a way that is not followed")
	errUnframed   = errors.New("is in a frame that cannot be found: its debug information has no frame base that is understood")
)

// locateAtEntry returns the location of an object at the entry of a function,
// by its location expression and the function's frame base.
func locateAtEntry(expr, base []byte) ([]op.Piece, error) {
	pieces, err := op.Locate(expr, op.Scope{Entry: true, CFA: op.Frame{Register: op.CFA}, FrameBase: base})
	switch err {
	case nil:
		return pieces, nil
	case op.ErrDamaged:
		return nil, errDamaged
	}
	return nil, errNotAtEntry
}

// locate returns the location of an object at an instruction inside a function,
// with the given frame.
func locate(expr, base []byte, frame Frame) ([]op.Piece, error) {
	pieces, err := op.Locate(expr, op.Scope{CFA: frame, FrameBase: base})
	switch err {
	case nil:
		return pieces, nil
	case op.ErrDamaged:
		return nil, errDamaged
	case op.ErrAddress:
		return nil, errStatic
	case op.ErrEntryValue:
		return nil, errEntryOnly
	case op.ErrFrameBase:
		return nil, errUnframed
	case op.ErrNowhere:
		return nil, ErrNotLive
	}
	return nil, errComputed
}

// located returns the expression of a location that is valid at pc; nil if
// there is none. whole reports that it is valid in all of the function's code.
func (f *Info) located(unit, e *dwarf.Entry, pc uint64) (expr []byte, whole bool, err error) {
	return f.d.Location(unit, e, pc, f.spend)
}
