package calls

import (
	"errors"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
	"endoscope/probes/debugfiles"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/selection"
)

// FunctionValue is how a value is read in one function, or why it is NULL.
type FunctionValue struct {
	signature.Value
	err  error
	none bool // the function has no such argument, or returns nothing
}

func AnyValue(vs []*Value) bool {
	return slices.ContainsFunc(vs, func(v *Value) bool { return v != nil })
}

// AnyNamed reports whether a value needs debug information.
func AnyNamed(vs []*Value) bool {
	return slices.ContainsFunc(vs, func(v *Value) bool { return v != nil && v.Path != nil })
}

// Signatures holds the signatures of a module's functions.
type Signatures struct {
	info *signature.Info
	err  error // why they are missing
}

// OpenSignatures reads a module's debug information if a value needs it. functions is
// the number of functions to be read.
func OpenSignatures(sym *elf.Module, vs []*Value, functions int) (s Signatures) {
	if WholeOnly(vs) >= 0 && functions > maxTyped {
		return Signatures{err: errManyTypes}
	}
	if AnyNamed(vs) {
		s.info, s.err = signature.Open(sym)
	}
	return s
}

// Values returns how values are read in one function.
func (s Signatures) Values(vs []*Value, sym *elf.Module, c selection.Choice, at signature.Where) []FunctionValue {
	out := make([]FunctionValue, len(vs))
	var f *signature.Function
	err := s.err
	for i, v := range vs {
		switch {
		case v == nil:
			continue
		case v.goroutine:
			out[i].Value = goroutineOf(sym, c)
			continue
		case v.Path == nil:
			n, err := v.rawInteger(c.Lang == elf.Go, at)
			if err != nil {
				out[i].err = plan.Errorf(-1, -1, "%s of %s is not read: %v", v.Name, c.Name, err).WithHint("args.name reads an argument by its name")
				continue
			}
			out[i].Value = v.at(n)
			continue
		}
		if f == nil && err == nil {
			f, err = s.info.Function(sym, c.Index)
		}
		switch {
		case err != nil && v.Whole && v.mayBe(types.Bigint):
			out[i].Value = registerValue
			continue
		case err != nil:
			out[i].err = withoutTypes(sym, c.Name, err)
			continue
		}
		where := at
		where.MaxText, where.AsText, where.AsNumber = v.limit, v.As == AsText || v.As == AsHex, v.Whole && v.T == types.Bigint || v.isWritten()
		where.Whole, where.Computed, where.Result = !where.AsText && !where.AsNumber, true, v.Result
		read := f.Argument
		switch {
		case v.all:
			out[i].Value, out[i].err = f.Arguments(where)
			continue
		case v.Result:
			read = f.Return
			out[i].none = f.Result == nil
		default:
			out[i].none = !strings.HasPrefix(v.Path[0], "#") && !slices.ContainsFunc(f.Params, func(p signature.Param) bool { return p.Name == v.Path[0] })
		}
		out[i].Value, out[i].err = v.readAs(read, where)
		if out[i].err == nil {
			v.finish(&out[i].Value)
		}
		switch {
		case out[i].err != nil:
		case v.As != AsItself && (out[i].Type != types.Varchar || v.As == AsDigits && out[i].Text != nil):
			what := "pointer"
			if v.As == AsDigits {
				what = "number"
			}
			out[i].err = plan.Errorf(-1, -1, "%s of %s is no %s", v.pointer(), c.Name, what)
		case v.Whole && !v.mayBe(out[i].Type):
			out[i].err = plan.Errorf(-1, -1, "%s of %s is %s", v.Name, c.Name, out[i].Type)
		}
	}
	return out
}

// pointer returns what a function of the language is applied to: args.p of str(args.p, 64).
func (v *Value) pointer() string {
	_, inner, _ := strings.Cut(strings.TrimSuffix(v.Name, ")"), "(")
	if v.prefix {
		inner = inner[:strings.LastIndex(inner, ", ")]
	}
	return inner
}

// ValuesOfMarked returns how values are read at a marked place. The kernel provides
// its arguments as numbers.
func ValuesOfMarked(vs []*Value, w Function) []FunctionValue {
	out := make([]FunctionValue, len(vs))
	for i, v := range vs {
		if v != nil && w.Marked != nil && w.Returns < ReportedEntry && !v.Result {
			n, ok := markedNumber(v.Path)
			if v.Path == nil && v.raw >= abi.MaxArgs {
				n, ok = v.raw, true
			}
			if ok && n < len(w.Marked.Args) {
				var err error
				out[i].Value, err = markedArgument(w.Marked.Args, n)
				if v.As != AsItself && err == nil {
					out[i].Value = v.at(*out[i].Number)
				}
				if err != nil {
					out[i].err = plan.Errorf(-1, -1, "%s of %s cannot be read: %v", v.Name, w.Label.Function, err)
				}
				continue
			}
		}
		switch {
		case v == nil:
		case v.goroutine:
			out[i].Type = types.Bigint // NULL
		case v.all && w.Marked != nil && w.Returns < ReportedEntry:
			out[i].Value = markedArguments(w.Marked.Args)
		case v.Path != nil || v.Result || w.Marked == nil || w.Returns >= ReportedEntry || v.raw >= abi.MaxArgs:
			out[i].err = plan.Errorf(-1, -1, "%s has no %s", w.Label.Function, v.Name).WithHint("its arguments are arg0 to arg5, all of them by type args.arg0, args.arg1, ..., and str(arg0) is the text at one")
		case v.raw >= len(w.Marked.Args) || w.Marked.Args[v.raw].Refused != nil:
			out[i].err = plan.Errorf(-1, -1, "%s has no arg%d that can be read", w.Label.Function, v.raw)
		default:
			out[i].Value = v.at(codegen.Integer{Moment: true, Register: ValuePlaces.Numbers[v.raw]})
		}
	}
	return out
}

// withoutTypes returns the error for a function whose types are unknown.
func withoutTypes(sym *elf.Module, name string, err error) error {
	if errors.Is(err, elf.ErrNoDebugInfo) {
		hint := "arg0 to arg5 are the raw arguments, str(arg0) the text at one; names take a program compiled with -g, or its debug file"
		if where := debugfiles.Where(sym); where != "" {
			hint += ": " + where
		} else {
			hint += " under /usr/lib/debug or SET debug_directory"
		}
		if notice := sym.Notice(); notice != "" {
			hint += "; " + notice
		}
		return plan.Errorf(-1, -1, "the arguments of %s are not known by name: %s %v", name, sym.Name(), err).WithHint("%s", hint)
	}
	return plan.Errorf(-1, -1, "the arguments of %s are not known by name: it %v", name, err).WithHint("arg0 to arg5 are the raw arguments, str(arg0) the text at one")
}

// agree checks that a value has one type in all functions that have it. It is NULL in
// the others; at least one function must have it.
func (v *Value) agree(wants []Function, column int) error {
	if v.Whole {
		v.conform(wants, column)
		return nil
	}
	of := func(f int) (FunctionValue, string) { return wants[f].Values[column], wants[f].Label.Function }
	lack, t, err := agreed(v, len(wants), of)
	if lack == len(wants) || err == nil && t == v.T {
		return err
	}
	return v.checkCast(v.T, len(wants), of)
}

// agreed returns the common type of a value in n functions, and how many lack the
// value.
func agreed(v *Value, n int, of func(f int) (FunctionValue, string)) (lack int, t types.Type, err error) {
	first, have := "", false
	for f := range n {
		x, name := of(f)
		switch {
		case x.err != nil:
			if lack++; err == nil {
				err = x.err
			}
		case !have:
			first, t, have = name, x.Type, true
		case x.Type == types.Bigint && t == types.Ubigint, x.Type == types.Ubigint && t == types.Bigint:
			t = types.Bigint // an unsigned number that does not fit is NULL
		case x.Type != t || v.isText(x) != (t == types.Varchar && x.Names == nil):
			return lack, t, plan.Errorf(-1, -1, "%s is %s in %s and %s in %s", v.Name, t, first, x.Type, name).WithHint("choose functions that agree")
		}
	}
	if !have {
		return lack, t, err
	}
	return lack, t, nil
}

// TypeIn returns the type of a value in n functions: the common type of those that
// have it or, where they disagree, the type that the statement casts it to.
func (v *Value) TypeIn(n int, of func(f int) (FunctionValue, string)) (types.Type, error) {
	lack, t, err := agreed(v, n, of)
	if err == nil || lack == n || v.T == types.Null {
		return t, err
	}
	return v.T, v.checkCast(v.T, n, of)
}
