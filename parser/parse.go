package parser

// Parse reads one statement.
func Parse(src string) (Statement, error) {
	return nil, &Error{Msg: "no statement", Src: src, Syntax: true}
}
