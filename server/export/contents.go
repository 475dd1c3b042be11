package export

import (
	"endoscope/planner"
	"endoscope/planner/types"
	"endoscope/server/answer"
)

// Content is one thing that an export has: a metric, a label, or a part of a span.
type Content struct{ Name, Kind, Unit, From string }

// Contents lists what an export has.
func Contents(p *planner.Export) (all []Content) {
	fields := p.Query.Root.Schema().Fields
	for i := range p.Metrics {
		m := &p.Metrics[i]
		name := m.FullName()
		if p.To != "" {
			name = m.Name + m.Suffix() // OTLP has the unit and the kind beside the name
		}
		all = append(all, Content{name, m.Kind.String(), m.Unit.Code, m.Help})
	}
	kind := "label"
	if s := p.Spans; s != nil {
		kind = "attribute"
		all = append(all, Content{"name", "span", "", fields[s.Name].Name})
		if s.Trace >= 0 {
			all = append(all, Content{"trace id", "span", "", fields[s.Trace].Name})
		}
	}
	for _, l := range p.Labels {
		all = append(all, Content{l.Name, kind, "", fields[l.Column].Name})
	}
	return all
}

// Target returns where an export goes, as SHOW EXPORTS has it.
func Target(p *planner.Export) string {
	if p.To == "" {
		return "PROMETHEUS"
	}
	return p.To
}

// Target returns where the export goes.
func (e *Export) Target() string { return Target(e.Plan) }

// Describe lists what an export has.
func Describe(e *Export) *answer.Table {
	rel := answer.NewTable(answer.Text("name"), answer.Text("kind"), answer.Text("unit"), answer.Text("of"))
	for _, c := range Contents(e.Plan) {
		rel.Add(types.Str(c.Name), types.Str(c.Kind), types.Str(c.Unit), types.Str(c.From))
	}
	rel.Notices = []string{e.Plan.Name + ": " + e.Text}
	return rel
}
