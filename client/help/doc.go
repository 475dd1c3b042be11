// Package help is the manual: one Markdown file for each topic, in topics/,
// embedded in the program. `endoscope help`, and \help at the prompt, show it.
//
//	topics/*.md ─► Topics ─► Find(words) ─► Page ─► Page.Write (a terminal, a pipe)
//	                 ▲
//	reference tables of planner/catalog and planner/plan
//
// Tables of streams, columns, settings and functions are generated from the
// tables that the planner itself uses. A line {{name}} in a topic is
// replaced by a table.
//
// It must not know sessions, engines or how statements are executed.
package help
