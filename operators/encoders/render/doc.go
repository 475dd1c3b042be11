// Package render draws encodings: graphs ([Diagram]) as SVG, DOT and Mermaid, and what
// happens over time ([Heatmap]) as SVG and text. Pictures are pure functions of their
// input.
//
// It must not know encodings.
package render
