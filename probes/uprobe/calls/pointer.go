package calls

import (
	"fmt"
	"strconv"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/signature"
)

// As is what is read at a pointer.
type As uint8

const (
	AsItself As = iota
	AsText      // str(p): a text
	AsHex       // hex(p, 16): bytes
	AsDigits    // hex(n): the number itself, in hexadecimal, of any size up to 64 bits
	AsSymbol    // symbol(p): the name of what is there
)

// readers are the functions of the language that read at a pointer.
var readers = []struct {
	begin string
	as    As
}{{"str(", AsText}, {"hex(", AsHex}, {"symbol(", AsSymbol}}

// parsePath parses args.a[1].b, retval.a.b, retval[1].
func (v *Value) parsePath(name string) bool {
	path := signature.Path(name)
	if len(path) < 2 || path[0] != "args" && path[0] != retvalName {
		return false
	}
	v.Path, v.Result = path[1:], path[0] == retvalName
	return true
}

// parseValue parses the name of a column: args.a.b, retval.a.b, args, arg6, str(arg0),
// str(args.a.b, 64), hex(arg0, 16), symbol(retval), symbol(retval.a).
func parseValue(name string) (*Value, bool) {
	v := &Value{}
	switch {
	case name == plan.AllArguments:
		v.all, v.Path = true, []string{}
		return v, true
	case v.parsePath(name):
		return v, true
	case plan.IsStackArgument(name):
		return v, v.parseRaw(name)
	}
	for _, r := range readers {
		inner, ok := strings.CutPrefix(name, r.begin)
		if !ok {
			continue
		}
		v.As = r.as
		inner = strings.TrimSuffix(inner, ")")
		if at := strings.LastIndex(inner, ", "); at >= 0 {
			if n, err := strconv.Atoi(inner[at+2:]); err == nil {
				inner, v.limit, v.prefix = inner[:at], n, true
			}
		}
		if v.As == AsHex && !v.prefix {
			v.As = AsDigits
			return v, v.parsePath(inner)
		}
		if v.parsePath(inner) {
			return v, true
		}
		if inner == retvalName {
			v.Result = true
			return v, true
		}
		return v, v.parseRaw(inner)
	}
	return nil, false
}

// parseRaw parses arg0, arg6.
func (v *Value) parseRaw(name string) bool {
	n, ok := plan.RawArgument(name)
	v.raw = n
	return ok
}

// Offsets of registers in struct pt_regs.
const (
	regBX, regR11, regR10, regR9, regR8 = 40, 48, 56, 64, 72
	regAX, regCX, regDX, regSI, regDI   = 80, 88, 96, 104, 112
	regSP                               = 152
	regR14                              = 8
)

// The registers of the first arguments.
var (
	argumentsOfC  = []int16{regDI, regSI, regDX, regCX, regR8, regR9}
	argumentsOfGo = []int16{regAX, regBX, regCX, regDI, regSI, regR8, regR9, regR10, regR11}
)

// rawInteger returns a raw argument, or the raw result: in C the arguments after those in
// registers are on the stack, in the order in which they are passed. In Go their places
// there follow from their types.
func (v *Value) rawInteger(golang bool, at signature.Where) (codegen.Integer, error) {
	registers := argumentsOfC
	if golang {
		registers = argumentsOfGo
	}
	switch {
	case v.Result:
		return codegen.Integer{Register: regAX}, nil
	case v.raw < len(registers):
		return codegen.Integer{Register: registers[v.raw]}, nil
	case golang:
		return codegen.Integer{}, fmt.Errorf("arguments of Go after the %dth integer are on the stack, where their places depend on their types", len(registers))
	}
	const word = 8 // the return address lies before the arguments
	return codegen.Integer{Register: regSP, Memory: true, Offset: at.SPOffset + word + word*int64(v.raw-len(registers))}, nil
}

// at returns what is read at a raw pointer.
func (v *Value) at(p codegen.Integer) signature.Value {
	switch v.As {
	case AsText, AsHex:
		x := signature.Value{Value: codegen.Value{Text: &codegen.Text{At: p, Max: v.limit}}, Type: types.Varchar}
		v.finish(&x)
		return x
	case AsSymbol, AsDigits:
		p.Fits = false
		return signature.Value{Value: codegen.Value{Number: &p}, Type: types.Varchar}
	}
	return signature.Value{Value: codegen.Value{Number: &p}, Type: types.Bigint}
}

// finish makes a value that was read as a text or a number what the function of the
// language makes of it.
func (v *Value) finish(x *signature.Value) {
	switch {
	case v.As == AsHex && x.Text != nil && x.Text.Length == nil:
		n := v.limit
		if x.Text.Chars > 0 {
			n = min(n, x.Text.Chars)
		}
		x.Text.Chars, x.Text.Length = 0, &codegen.Integer{Known: true, Constant: int64(n)}
	case (v.As == AsSymbol && x.Number != nil && x.Number.Bits%64 == 0 || v.As == AsDigits && x.Number != nil) && x.Float == 0:
		x.Number.Fits, x.Type, x.Names = false, types.Varchar, nil
	}
}

// isText reports whether a value of VARCHAR is no enum.
func (v *Value) isText(x FunctionValue) bool { return x.Text != nil || v.isWritten() }

// isWritten reports whether the value is a number of which the column has a text.
func (v *Value) isWritten() bool { return v.As == AsSymbol || v.As == AsDigits }
