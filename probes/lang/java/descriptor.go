package java

import "strings"

// Parameters converts the parameters of a method's descriptor (JVMS 4.3.3) to
// the form of java.lang.reflect.Method: "int,java.lang.String,long[]" for
// "(ILjava/lang/String;[J)V". It returns false for an invalid descriptor.
func Parameters(descriptor string) (string, bool) {
	list, _, ok := strings.Cut(strings.TrimPrefix(descriptor, "("), ")")
	if !ok || !strings.HasPrefix(descriptor, "(") {
		return "", false
	}
	var out strings.Builder
	for list != "" {
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		element := strings.TrimLeft(list, "[")
		dimensions := len(list) - len(element)
		if element == "" {
			return "", false
		}
		name, rest := primitives[element[0]], element[1:]
		if element[0] == 'L' {
			if name, rest, ok = strings.Cut(element[1:], ";"); !ok {
				return "", false
			}
			name = strings.ReplaceAll(name, "/", ".")
		}
		if name == "" {
			return "", false
		}
		out.WriteString(name)
		out.WriteString(strings.Repeat("[]", dimensions))
		list = rest
	}
	return out.String(), true
}

var primitives = map[byte]string{'B': "byte", 'C': "char", 'D': "double", 'F': "float", 'I': "int", 'J': "long", 'S': "short", 'Z': "boolean"}
