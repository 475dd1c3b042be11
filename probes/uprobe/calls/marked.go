package calls

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"

	"endoscope/planner/types"
	"endoscope/probes/bpf"
	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/op"
	"endoscope/probes/dwarf/shape"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/usdt"
)

// Kinds of bpf.FunctionOperand, and the value for no register.
const (
	operandConstant = iota + 1
	operandRegister
	operandMemory
	noRegister = 0xff
)

// registerWords maps op.Register to the word of struct pt_regs that holds it
// (arch/x86/include/asm/ptrace.h).
var registerWords = [...]uint8{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16}

// OperandsOf returns where the programs find the arguments of a marked place.
// Arguments that cannot be read are 0; no query reads them.
func OperandsOf(args []usdt.Operand) (out bpf.FunctionOperands) {
	for i := range min(len(args), abi.MaxArgs) {
		a, o := &args[i], &out.Of[i]
		*o = bpf.FunctionOperand{Kind: operandConstant, Base: noRegister, Index: noRegister}
		if a.Refused != nil {
			continue
		}
		o.Value, o.Unused = uint64(a.Value), uint8(64-8*a.Size)
		if a.Signed {
			o.Sign = 1
		}
		switch {
		case a.Memory:
			o.Kind = operandMemory
		case a.Base != op.NoRegister:
			o.Kind = operandRegister
		}
		if a.Base != op.NoRegister {
			o.Base = registerWords[a.Base]
		}
		if a.Index != op.NoRegister {
			o.Index = registerWords[a.Index]
			for s := a.Scale; s > 1; s >>= 1 {
				o.Scale++
			}
		}
	}
	return out
}

// markedArgument returns argument n of a marked place by its type, for any n:
// args.arg7.
func markedArgument(args []usdt.Operand, n int) (signature.Value, error) {
	a := &args[n]
	if a.Refused != nil {
		return signature.Value{}, a.Refused
	}
	i := codegen.Integer{Memory: a.Memory, Offset: a.Value, Bits: uint8(8 * a.Size), Signed: a.Signed}
	switch {
	case a.Index != op.NoRegister:
		i.Indexed, i.Index, i.Scale = true, 8*int16(registerWords[a.Index]), uint8(bits.TrailingZeros64(uint64(a.Scale)))
		if i.Register = codegen.NoRegister; a.Base != op.NoRegister {
			i.Register = 8 * int16(registerWords[a.Base])
		}
	case a.Base == op.NoRegister && a.Memory:
		return signature.Value{}, errors.New("is at an address that is none")
	case a.Base == op.NoRegister:
		i = codegen.Integer{Known: true, Constant: extended(a)}
	default:
		i.Register = 8 * int16(registerWords[a.Base])
		i.Address = !a.Memory && a.Value != 0 // the address of a variable
	}
	v := signature.Value{Type: types.Bigint}
	switch {
	case a.Float:
		v.Type, v.Float, i.Signed = types.Double, int64(a.Size), false
	case a.Size == 8 && !a.Signed && !i.Known && !i.Address:
		v.Type = types.Ubigint
	}
	v.Number = &i
	return v, nil
}

// markedArguments returns all arguments of a marked place as one object: arg0, arg1, ...
func markedArguments(args []usdt.Operand) signature.Value {
	const size = 8
	all := &shape.Shape{Kind: shape.Struct, Size: size * len(args)}
	parts := []codegen.Part{{At: codegen.Integer{Known: true}}}
	for i := range args {
		f := shape.Field{Name: "arg" + strconv.Itoa(i), Offset: size * i, Shape: &shape.Shape{Size: size}}
		if v, err := markedArgument(args, i); err == nil {
			switch {
			case v.Float != 0:
				f.Shape = &shape.Shape{Kind: shape.Float, Size: int(v.Float)}
			case args[i].Signed:
				f.Shape.Kind = shape.Signed
			default:
				f.Shape.Kind = shape.Unsigned
			}
			parts = append(parts, codegen.Part{At: *v.Number, Offset: f.Offset})
		}
		all.Fields = append(all.Fields, f)
	}
	text := &codegen.Text{Max: codegen.PartsSize(all.Size, parts), Parts: parts}
	return signature.Value{Value: codegen.Value{Text: text}, Type: types.Varchar, Shape: all}
}

// extended returns a constant, extended from its own width.
func extended(a *usdt.Operand) int64 {
	unused := 64 - 8*a.Size
	if a.Signed {
		return a.Value << unused >> unused
	}
	return int64(uint64(a.Value) << unused >> unused)
}

// markedNumber returns n of a path argn.
func markedNumber(path []string) (n int, ok bool) {
	if len(path) != 1 {
		return 0, false
	}
	digits, ok := strings.CutPrefix(path[0], "arg")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}
