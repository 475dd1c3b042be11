package catalog

// VariableValue is the stream of variables' values (probes/variable).
const VariableValue = "variable_value"

var variables = []*Stream{
	{Name: VariableValue, Kind: Enumerable, Sampled: true, Process: true, Doc: "a tuple for each write to a variable, or its value at each sample",
		How:   "hardware watchpoints on every thread; for a function's variables, uprobes at the beginnings of the lines where they are live (AND function_name = '...'); sampled: the process' memory is read",
		Cost:  "a trap for each write, or for each line of a function: 1 to 2 us, on a virtual machine up to 18; samples cost the program nothing",
		Needs: "Linux 5.15 with BTF, CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE; debug information (-g) for anything but plain numbers; for a function's variables Linux 6.10",
		Columns: columns(stamp, who, []Column{
			{"var_name", tS, "", "the name in the query: a global, a static variable (function::name, namespace::name), or a part of it (.field, [0]; in samples also ->field); at most four are watched, of up to 8 bytes, and writes by the kernel are not seen. With function_name = '...': a parameter or local variable of it, or what it leads to (a.b, a->b), reported when a call is first seen with it and when a line finds it changed"},
			{"var_value", tI, "", "an integer, pointer, boolean, or the number of an enumeration's value; else NULL, and where it is above 9223372036854775807"},
			{"var_unsigned", tU, "", "the same, NULL where it is negative"},
			{"var_real", tF, "", "a floating-point number, or the nearest one to an integer"},
			{"var_text", tS, "", "the value as its language writes it; a text of 256 bytes at most"},
			{"function_name", tS, "", "the function that wrote, or whose variable it is; NULL in samples"},
			{"line", tI, "", "for a function's variable: the line before which the value was found; else NULL"},
			{"module", tS, "", "file name of the executable or library that has the variable; the executable if the query names none"},
		}), Asked: contained},
}
