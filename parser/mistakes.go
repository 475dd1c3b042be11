package parser

// mistakes words the errors that people make, most particular first. A rule
// gives nil if its mistake was not made.
var mistakes = []func(*diagnosis) *Error{}
