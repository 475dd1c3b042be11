package server_test

import (
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/types"
	"endoscope/probes/entities"
	"endoscope/probes/procfs"
	"endoscope/probes/sched"
	"endoscope/probes/stack"
	"endoscope/probes/uprobe"
	"endoscope/probes/variable"
	"endoscope/server"
)

// TestCatalogEqualsProviders holds the one list of streams to what the probe
// providers make: the same columns, in the same order, of the same types.
func TestCatalogEqualsProviders(t *testing.T) {
	provided := map[string][]types.Field{}
	for _, columns := range []map[string][]types.Field{procfs.Columns, uprobe.Columns, sched.Columns, entities.Columns, {stack.Stream: stack.Columns, variable.Stream: variable.Columns, "event_handlers": server.HandlerColumns}} {
		for stream, fields := range columns {
			provided[stream] = fields
		}
	}
	for _, c := range server.HandlerCostColumns {
		provided["handler_cost"] = append(provided["handler_cost"], c.Field)
	}
	for stream, fields := range provided {
		s := catalog.Find(stream)
		if s == nil || s.Later {
			t.Errorf("%s can be acquired but is not in the catalog", stream)
			continue
		}
		columns := s.All()
		for i := range max(len(fields), len(columns)) {
			var want, have string
			if i < len(fields) {
				want = fields[i].Name + " " + fields[i].Type.String()
			}
			if i < len(columns) {
				have = columns[i].Name + " " + columns[i].Type.String()
			}
			if want != have {
				t.Errorf("%s, column %d: the catalog has %q, its provider %q", stream, i, have, want)
			}
		}
	}
	for _, s := range catalog.Streams {
		if !s.Later && s.Kind != catalog.Snapshot && provided[s.Name] == nil {
			t.Errorf("nothing acquires %s", s.Name)
		}
	}
}
