package expr

import "math"

// The kernels of plan.Scalars by name. A builder gets arguments that the resolver typed by
// that table; it returns a nil node if there is no kernel for the types.
//
// strictCalls return NULL if an argument is NULL.
var strictCalls = map[string]builder{
	"=": compare, "<>": compare, "<": compare, "<=": compare, ">": compare, ">=": compare,
	"not": not,

	"+": add, "-": subtract, "*": multiply, "/": divide, "%": remainder, "neg": negate,
	"abs": abs, "ceil": unaryFloat(math.Ceil), "floor": unaryFloat(math.Floor), "round": round,
	"sqrt": partialFloat(math.Sqrt, func(x float64) bool { return x < 0 }),
	"log2": partialFloat(math.Log2, func(x float64) bool { return x <= 0 }),
	"ln":   partialFloat(math.Log, func(x float64) bool { return x <= 0 }),
	"pow":  pow,

	"to_ns": toUnit(1), "to_us": toUnit(1e3), "to_ms": toUnit(1e6), "to_s": toUnit(1e9), "to_min": toUnit(60e9),
	"date_trunc": dateTrunc,

	"like": like, "ilike": ilike, "~": matches,
	"||": rowwise(join), "length": length, "hex": rowwise(hex), "lower": rowwise(lower), "upper": rowwise(upper),
	"substr": rowwise(substr), "replace": rowwise(replace), "split_part": rowwise(splitPart),
	"text": form(encodingText, ""), "json": form(encodingJSON, ""),
	"dot": form(encodingDot, "a graph"), "mermaid": form(encodingMermaid, "a graph"), "svg": form(encodingSVG, "a picture"),
	"xml": form(encodingXML, "a TRIE"), "folded": form(encodingFolded, "a TRIE"),
	"label": label, "starts_with": rowwise(startsWith), "regexp_extract": regexpExtract,

	"format_stack": stackText(formatStack), "folded_stack": stackText(foldedStack), "frame": rowwise(stackFrame), "source_stack": stackText(sourceStack),
	"frame.module": rowwise(frameField(moduleAt)), "frame.file": rowwise(frameField(fileAt)), "frame.line": rowwise(frameField(lineAt)), "frame.inlined": rowwise(frameField(inlinedAt)),
}

// laxCalls have their own rules for NULL.
var laxCalls = map[string]builder{
	"and": and, "or": or, "is null": isNullCall,
	"coalesce": coalesce, "least": least, "greatest": greatest, "nullif": nullif,
	"concat": concat, "now": now,
}
