// Package render draws graphs ([Diagram]) as SVG, DOT and Mermaid, and activity over time
// ([Heatmap]) as SVG and text. Pictures are pure functions of their input.
//
// It must not know encodings.
package render
