package op

import (
	"errors"
	"slices"

	"endoscope/probes/dwarf/leb128"
)

// Piece is where some bytes of an object are.
type Piece struct {
	Kind     Kind
	Register int   // DWARF's number, or CFA
	Offset   int64 // of memory, from what the register has; of a constant, itself
	At       int64 // of the object's bytes, the first one here
	Size     int64 // bytes; 0: all that is left
	// Follow are offsets at which addresses are read, one behind the other, before Offset is
	// added.
	Follow []int64
}

// Kind is the kind of a Piece.
type Kind uint8

// The kinds of pieces.
const (
	Nowhere    Kind = iota
	InRegister      // the register has them
	InMemory        // they lie Offset bytes from where the register points
	Constant
	Computed // what the register has plus Offset is the number itself
)

// CFA stands for the canonical frame address among registers: it is 8 bytes above the
// return address.
const CFA = -1

// MaxPieces is how many pieces an object may be in.
const MaxPieces = 64

// MaxFollow is how many addresses may be read on the way to a piece.
const MaxFollow = 8

// lastRegister is the last register that is an integer.
const lastRegister = 15

// Why Locate cannot say where an object is.
var (
	ErrDamaged    = errors.New("the expression is cut short")
	ErrOperation  = errors.New("the expression has an operation that is not followed")
	ErrAddress    = errors.New("the object has an address of its own")
	ErrEntryValue = errors.New("the object is known by what a register had at the entry")
	ErrFrameBase  = errors.New("the frame base is not known")
	ErrNowhere    = errors.New("the object is nowhere")
)

// Scope is what an expression refers to beside registers.
type Scope struct {
	// Entry: the expression is evaluated at the entry of a function, where registers have
	// what they had at the entry.
	Entry bool
	// CFA is the canonical frame address: a register plus an offset.
	CFA Frame
	// FrameBase is the function's DW_AT_frame_base, which DW_OP_fbreg refers to.
	FrameBase []byte

	within bool // the expression is the operand of a DW_OP_entry_value, which has none within it
}

// Frame is an address: what a register has, plus an offset.
type Frame struct {
	Register int
	Offset   int64
}

// frameBase is where the frame base is.
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
	case s.Entry: // registers may be set up by the first instructions
		return p, false
	case o.Code == Reg0: // clang: the frame is where the register points
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
	at      int64 // how many of the object's bytes done has
	isValue bool  // cur is said to be the value itself
}

// Locate follows a location expression as far as those go that compilers make.
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

// execute follows an operation.
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

// stackValue makes what has been computed the value of the object, not its address.
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

// entryValue sets what a register had at the entry, which at the entry it has.
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
