package op

import (
	"errors"
	"slices"

	"endoscope/probes/dwarf/leb128"
)

// Piece is the location of some bytes of an object.
type Piece struct {
	Kind     Kind
	Register int   // DWARF register number, or CFA
	Offset   int64 // in memory: added to the register; for a constant: its value
	At       int64 // offset of the piece in the object
	Size     int64 // in bytes; 0: the rest of the object
	// Follow are offsets of addresses to load, one after the other, before
	// Offset is added.
	Follow []int64
}

// Kind is the kind of a Piece.
type Kind uint8

// The kinds of pieces.
const (
	Nowhere    Kind = iota
	InRegister      // the register contains the bytes
	InMemory        // they are at the register's value plus Offset
	Constant
	Computed // the register's value plus Offset is the number itself
)

// CFA is the pseudo-register of the canonical frame address, 8 bytes above the
// return address.
const CFA = -1

// MaxPieces limits the pieces of an object.
const MaxPieces = 64

// MaxFollow limits the addresses loaded to reach a piece.
const MaxFollow = 8

// lastRegister is the last integer register.
const lastRegister = 15

// Reasons why Locate fails.
var (
	ErrDamaged    = errors.New("the expression is cut short")
	ErrOperation  = errors.New("the expression has an operation that is not followed")
	ErrAddress    = errors.New("the object has an address of its own")
	ErrEntryValue = errors.New("the object is known by what a register had at the entry")
	ErrFrameBase  = errors.New("the frame base is not known")
	ErrNowhere    = errors.New("the object is nowhere")
)

// Scope is what an expression refers to besides registers.
type Scope struct {
	// Entry: the expression is evaluated at the entry of a function, where
	// registers have their entry values.
	Entry bool
	// CFA is the canonical frame address: a register plus an offset.
	CFA Frame
	// FrameBase is the function's DW_AT_frame_base, which DW_OP_fbreg refers
	// to.
	FrameBase []byte

	within bool // the expression is the operand of a DW_OP_entry_value, which must not be nested
}

// Frame is an address: a register's value plus an offset.
type Frame struct {
	Register int
	Offset   int64
}

// frameBase returns the location of the frame base.
func (s *Scope) frameBase() (Piece, bool) {
	r := leb128.NewReader(s.FrameBase)
	if r.Len() == 0 {
		return Piece{}, false
	}
	o, _ := Next(&r)
	p := Piece{Kind: InMemory}
	switch {
	case o.Code == CallFrameCFA:
		p.Register, p.Offset = s.CFA.Register, s.CFA.Offset
	case s.Entry: // the first instructions may change registers
		return p, false
	case o.Code == Reg0: // clang: the register contains the frame's address
		p.Register = o.Register
	case o.Code == Breg0:
		p.Register, p.Offset = o.Register, o.Value
	default:
		return p, false
	}
	return p, !r.Failed() && r.Len() == 0
}

// locator is the state of Locate.
type locator struct {
	scope   *Scope
	done    []Piece
	cur     Piece
	at      int64 // number of the object's bytes in done
	isValue bool  // cur is the value itself, not its address
}

// Locate evaluates a location expression, as far as compilers emit them.
func Locate(code []byte, scope Scope) ([]Piece, error) {
	l := locator{scope: &scope}
	r := leb128.NewReader(code)
	for r.Len() > 0 {
		o, ok := Next(&r)
		switch {
		case r.Failed():
			return nil, ErrDamaged
		case !ok:
			return nil, ErrOperation
		}
		if err := l.execute(o); err != nil {
			return nil, err
		}
		if !scope.Entry && l.cur.Kind == InMemory && l.cur.Register > lastRegister {
			return nil, ErrOperation
		}
	}
	if l.cur.Kind == Constant && !l.isValue && len(l.done) == 0 {
		return nil, ErrAddress
	}
	if len(l.done) == 0 {
		l.done = append(l.done, l.cur)
	}
	if !slices.ContainsFunc(l.done, func(p Piece) bool { return p.Kind != Nowhere }) {
		return nil, ErrNowhere
	}
	return l.done, nil
}

// execute applies an operation.
func (l *locator) execute(o Operation) error {
	switch o.Code {
	case Reg0:
		l.cur = Piece{Kind: InRegister, Register: o.Register}
	case Breg0:
		l.cur = Piece{Kind: InMemory, Register: o.Register, Offset: o.Value}
	case Fbreg:
		p, ok := l.scope.frameBase()
		if !ok {
			return ErrFrameBase
		}
		p.Offset += o.Value
		l.cur = p
	case CallFrameCFA:
		l.cur = Piece{Kind: InMemory, Register: l.scope.CFA.Register, Offset: l.scope.CFA.Offset}
	case Addr, Addrx, GNUAddrIndex:
		return ErrAddress
	case Consts:
		l.cur = Piece{Kind: Constant, Offset: o.Value}
	case PieceOf:
		if len(l.done) == MaxPieces {
			return ErrOperation
		}
		l.cur.At, l.cur.Size = l.at, o.Value
		l.at += o.Value
		l.done = append(l.done, l.cur)
		l.cur, l.isValue = Piece{}, false
	case PlusUconst:
		if l.cur.Kind != InMemory && (l.scope.Entry || l.cur.Kind != Constant) {
			return ErrOperation
		}
		l.cur.Offset += o.Value
	case StackValue:
		return l.stackValue()
	case EntryValue:
		return l.entryValue(o.Block)
	case Deref:
		if l.scope.Entry || l.cur.Kind != InMemory || len(l.cur.Follow) == MaxFollow {
			return ErrOperation
		}
		l.cur.Follow, l.cur.Offset = append(slices.Clone(l.cur.Follow), l.cur.Offset), 0
	case ImplicitValue:
		n := len(o.Block)
		if l.scope.Entry || n != 1 && n != 2 && n != 4 && n != 8 {
			return ErrOperation
		}
		value := leb128.NewReader(o.Block)
		l.cur, l.isValue = Piece{Kind: Constant, Offset: int64(value.Uint(n))}, true
	default:
		return ErrOperation
	}
	return nil
}

// stackValue makes the computed result the value of the object, not its
// address.
func (l *locator) stackValue() error {
	l.isValue = true
	switch {
	case l.cur.Kind != InMemory:
	case l.scope.Entry:
		if l.cur.Offset != 0 || l.cur.Register == CFA {
			return ErrOperation
		}
		l.cur.Kind = InRegister
	case len(l.cur.Follow) > 0:
		return ErrOperation
	default:
		l.cur.Kind = Computed
	}
	return nil
}

// entryValue pushes the entry value of a register, which at the entry is its
// current one.
func (l *locator) entryValue(code []byte) error {
	if !l.scope.Entry || l.scope.within {
		return ErrEntryValue
	}
	scope := *l.scope
	scope.within = true
	p, err := Locate(code, scope)
	if err != nil || len(p) != 1 || p[0].Kind != InRegister {
		return ErrEntryValue
	}
	l.cur = Piece{Kind: InMemory, Register: p[0].Register}
	return nil
}
