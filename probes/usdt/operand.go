package usdt

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"endoscope/probes/dwarf/op"
)

// Operand locates a value at an instruction: a constant, a register, or memory
// at an address computed from registers.
type Operand struct {
	Size   int  // in bytes: 1, 2, 4 or 8
	Signed bool // sign-extended
	Float  bool // floating-point number
	// Refused says why it cannot be read; nil: it can.
	Refused error

	Memory bool
	Base   op.Register // NoRegister: only Value counts
	Index  op.Register // for memory
	Scale  int64       // for Index: 1, 2, 4 or 8
	Value  int64       // the constant, or the displacement
	// Variable is the symbol whose address is added to Value. Probes resolves
	// it: in its result the address is relative to the instruction.
	Variable string
}

const ripRegister op.Register = 16

// registerNames are the 64-bit names by number.
var registerNames = [...]string{
	"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip",
}

// registersByName also contains the names of the registers' lower parts.
var registersByName = func() map[string]op.Register {
	m := map[string]op.Register{}
	for i, name := range registerNames {
		r := op.Register(i)
		m[name] = r
		switch {
		case name == "rip":
		case name[1] >= '0' && name[1] <= '9':
			m[name+"d"], m[name+"w"], m[name+"b"] = r, r, r
		case name[2] == 'x':
			m["e"+name[1:]], m[name[1:]], m[name[1:2]+"l"] = r, r, r
		default:
			m["e"+name[1:]], m[name[1:]], m[name[1:]+"l"] = r, r, r
		}
	}
	return m
}()

var errOperand = errors.New("is of no known form")

// parseOperands parses the arguments of a <sys/sdt.h> probe, such as
//
//	-4@%edi 8@-16(%rbp) 4@$5 8@8(%rax,%rbx,4)
//
// An operand that cannot be read has Refused set.
func parseOperands(text string) []Operand {
	var out []Operand
	for _, field := range strings.Fields(text) {
		o, err := parseOperand(field)
		if err != nil {
			o.Refused = fmt.Errorf("`%s` %w", field, err)
		}
		out = append(out, o)
	}
	return out
}

func parseOperand(text string) (o Operand, err error) {
	o = Operand{Size: 8, Base: op.NoRegister, Index: op.NoRegister, Scale: 1}
	size, place, sized := strings.Cut(text, "@")
	if sized {
		size, o.Float = strings.CutSuffix(size, "f")
		if o.Size, err = strconv.Atoi(size); err != nil {
			return o, errOperand
		}
		if o.Size < 0 {
			o.Size, o.Signed = -o.Size, true
		}
		if o.Float && o.Size < 4 || o.Size != 1 && o.Size != 2 && o.Size != 4 && o.Size != 8 {
			return o, fmt.Errorf("has %d bytes", o.Size)
		}
		text = place
	}
	switch {
	case strings.HasPrefix(text, "$"):
		o.Value, o.Variable, err = parseDisplacement(text[1:])
		return o, err
	case strings.HasPrefix(text, "%"):
		if !sized {
			o.Size = partOf(text[1:])
		}
		o.Base, err = parseRegister(text)
		return o, err
	}
	return o, o.parseMemory(text)
}

// parseMemory parses disp(%base,%index,scale); all parts but one are optional.
func (o *Operand) parseMemory(text string) (err error) {
	o.Memory = true
	displacement, inner, ok := strings.Cut(text, "(")
	if !ok || !strings.HasSuffix(inner, ")") {
		return errOperand
	}
	if displacement != "" {
		if o.Value, o.Variable, err = parseDisplacement(displacement); err != nil {
			return err
		}
	}
	parts := strings.Split(strings.TrimSuffix(inner, ")"), ",")
	if len(parts) > 3 {
		return errOperand
	}
	if base := strings.TrimSpace(parts[0]); base != "" {
		if o.Base, err = parseRegister(base); err != nil {
			return err
		}
	}
	if len(parts) > 1 {
		if o.Index, err = parseRegister(strings.TrimSpace(parts[1])); err != nil {
			return err
		}
	}
	if len(parts) > 2 {
		if o.Scale, err = strconv.ParseInt(strings.TrimSpace(parts[2]), 10, 8); err != nil || o.Scale != 1 && o.Scale != 2 && o.Scale != 4 && o.Scale != 8 {
			return errOperand
		}
	}
	switch {
	case o.Index == ripRegister:
		return errOperand
	case o.Base == ripRegister && o.Variable == "":
		return errors.New("is relative to the code") // the code is relocated when the operand is read
	case o.Base == ripRegister:
		o.Base = op.NoRegister
	}
	return nil
}

// partOf returns the number of bytes of a register that a name denotes.
func partOf(name string) int {
	last := name[max(len(name)-1, 0):]
	numbered := len(name) > 1 && name[0] == 'r' && name[1] >= '0' && name[1] <= '9'
	switch {
	case numbered && last == "d", !numbered && strings.HasPrefix(name, "e"):
		return 4
	case numbered && last == "w", !numbered && len(name) == 2 && last != "l":
		return 2
	case numbered && last == "b", !numbered && last == "l":
		return 1
	}
	return 8
}

func parseRegister(text string) (op.Register, error) {
	name, ok := strings.CutPrefix(text, "%")
	r, known := registersByName[name]
	switch {
	case ok && known:
		return r, nil
	case ok && (strings.HasPrefix(name, "xmm") || strings.HasPrefix(name, "ymm") || strings.HasPrefix(name, "st")):
		return op.NoRegister, errors.New("is in a floating-point register")
	}
	return op.NoRegister, errOperand
}

// parseDisplacement parses a number as the assembler prints it, possibly a sum
// of numbers and a symbol.
func parseDisplacement(text string) (sum int64, symbol string, err error) {
	for text != "" {
		end := 1
		for end < len(text) && text[end] != '+' && text[end] != '-' {
			end++
		}
		if term := strings.TrimPrefix(text[:end], "+"); symbol == "" && isSymbol(term) {
			symbol, text = term, text[end:]
			continue
		}
		n, err := strconv.ParseInt(strings.TrimPrefix(text[:end], "+"), 0, 64)
		if err != nil {
			u, errU := strconv.ParseUint(strings.TrimPrefix(text[:end], "+"), 0, 64)
			if errU != nil {
				return 0, "", errOperand
			}
			n = int64(u)
		}
		sum += n
		text = text[end:]
	}
	return sum, symbol, nil
}

// isSymbol reports whether a term is a symbol's name.
func isSymbol(term string) bool {
	for i := range len(term) {
		c := term[i]
		letter := c == '_' || c == '.' || c == '$' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return term != ""
}

// locate replaces a variable, which has these addresses, by an offset from the
// instruction at pc.
func (o *Operand) locate(addresses []uint64, pc uint64) error {
	name := o.Variable
	o.Variable = ""
	switch {
	case len(addresses) == 0:
		return fmt.Errorf("is the variable %s, which is not among the symbols that are left", name)
	case len(addresses) > 1:
		return fmt.Errorf("is one of %d variables %s", len(addresses), name)
	case o.Base != op.NoRegister && o.Index != op.NoRegister:
		return errors.New("is at an address of three parts")
	case o.Base != op.NoRegister:
		o.Index, o.Scale = o.Base, 1
	}
	o.Base = ripRegister
	o.Value += int64(addresses[0] - pc)
	return nil
}
