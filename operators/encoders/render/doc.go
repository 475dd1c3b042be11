// Package render draws pictures as SVG: graphs ([Diagram], also as DOT and Mermaid), activity
// over time ([Heatmap], also as text), stacks ([Flame]), histograms ([Bars]) and numbers over
// time ([Lines]). They are pure functions of their input.
//
// A picture has a title, lines that say what it shows and what is missing, and a legend. It
// is safe to show: texts are escaped, there are no style attributes and, but for a flame graph
// that is asked to have one, no scripts. Its colours are attributes with classes, and [Style]
// has those for a dark background. No label overlaps another or a node.
//
// It must not know encodings.
package render
