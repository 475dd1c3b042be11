package introspect

import (
	"endoscope/operators/graph"
	"endoscope/planner/catalog"
	"endoscope/probes"
	"endoscope/probes/rows"
	"endoscope/server/answer"
	"endoscope/server/export"
	"endoscope/server/query"
	"endoscope/server/standing"
	"endoscope/server/trigger"
	"endoscope/server/wire"
)

// The tables of the sys streams. Each row has the time of the snapshot.

type queryRow struct {
	at         int64
	q          *query.Query
	sharesWith []int64
}

var queryTable = rows.NewTable(catalog.SysQueries, rows.Columns[queryRow]{
	"timestamp": rows.Word(func(r *queryRow) *int64 { return &r.at }),
	"query_id":  rows.Int(func(r *queryRow) int64 { return r.q.ID }),
	"state":     rows.String(func(r *queryRow) string { return r.q.Life.Shown() }),
	"statement": rows.String(func(r *queryRow) string { return r.q.Text }),
	"started":   rows.IntOr(func(r *queryRow) (int64, bool) { t := r.q.ArmedAt(); return t.I, !t.IsNull }),
	"rows":      rows.Int(func(r *queryRow) int64 { return int64(r.q.Tally.Rows.Load()) }),
	"acquired":  rows.Int(func(r *queryRow) int64 { return int64(r.q.Tally.Acquired.Load() + r.q.Tally.Groups.Load()) }),
	"lost":      rows.Int(func(r *queryRow) int64 { return int64(r.q.Tally.TotalLost()) }),
	"shares_with": rows.String(func(r *queryRow) string {
		return answer.FormatIDs(r.sharesWith)
	}),
	"owner": rows.Text(func(r *queryRow) string { return r.q.Grant.Name() }),
})

type probeRow struct {
	at      int64
	site    probes.Site
	queries int
	ids     string
}

var probeTable = rows.NewTable(catalog.SysProbes, rows.Columns[probeRow]{
	"timestamp":     rows.Word(func(r *probeRow) *int64 { return &r.at }),
	"provider":      rows.String(func(r *probeRow) string { return r.site.Provider }),
	"function_name": rows.String(func(r *probeRow) string { return r.site.Function }),
	"module":        rows.String(func(r *probeRow) string { return r.site.Module }),
	"address":       rows.Word(func(r *probeRow) *uint64 { return &r.site.Address }),
	"method":        rows.String(func(r *probeRow) string { return r.site.Method }),
	"kind":          rows.String(func(r *probeRow) string { return r.site.Kind }),
	"cost":          rows.RealOr(func(r *probeRow) (float64, bool) { return r.site.CostNs, true }),
	"queries":       rows.Int(func(r *probeRow) int64 { return int64(r.queries) }),
	"hits":          rows.Word(func(r *probeRow) *uint64 { return &r.site.Hits }),
	"query_ids":     rows.String(func(r *probeRow) string { return r.ids }),
})

type dropRow struct {
	at, query int64
	wire.Loss
	loss bool
}

var dropTable = rows.NewTable(catalog.SysDrops, rows.Columns[dropRow]{
	"timestamp": rows.Word(func(r *dropRow) *int64 { return &r.at }),
	"query_id":  rows.Word(func(r *dropRow) *int64 { return &r.query }),
	"cause":     rows.String(func(r *dropRow) string { return r.Cause }),
	"n":         rows.Int(func(r *dropRow) int64 { return int64(r.N) }),
	"loss":      rows.Bool(func(r *dropRow) bool { return r.loss }),
})

type operatorRow struct {
	at int64
	q  *query.Query
	st *graph.Stats
}

var operatorTable = rows.NewTable(catalog.SysOperators, rows.Columns[operatorRow]{
	"timestamp": rows.Word(func(r *operatorRow) *int64 { return &r.at }),
	"query_id":  rows.Int(func(r *operatorRow) int64 { return r.q.ID }),
	"operator":  rows.String(func(r *operatorRow) string { return r.st.Node.Describe() }),
	"site":      rows.String(func(r *operatorRow) string { return r.q.Site(r.st.Node) }),
	"rows_in":   rows.Int(func(r *operatorRow) int64 { return int64(r.st.RowsIn.Load()) }),
	"rows_out":  rows.Int(func(r *operatorRow) int64 { return int64(r.st.RowsOut.Load()) }),
	"time":      rows.Int(func(r *operatorRow) int64 { return r.st.Nanos.Load() }),
})

type triggerRow struct {
	at      int64
	t       *trigger.Trigger
	skipped uint64
	arming  string // "": no action has probes
}

var triggerTable = rows.NewTable(catalog.SysTriggers, rows.Columns[triggerRow]{
	"timestamp":   rows.Word(func(r *triggerRow) *int64 { return &r.at }),
	"trigger":     rows.String(func(r *triggerRow) string { return r.t.Plan.Name }),
	"mode":        rows.String(func(r *triggerRow) string { return r.t.Mode }),
	"state":       rows.String(func(r *triggerRow) string { return r.t.State() }),
	"activations": rows.Int(func(r *triggerRow) int64 { return r.t.Operator.Activations() }),
	"skipped":     rows.Word(func(r *triggerRow) *uint64 { return &r.skipped }),
	"rows":        rows.Int(func(r *triggerRow) int64 { return int64(r.t.Stream.Count()) }),
	"lost":        rows.Int(func(r *triggerRow) int64 { return int64(r.t.Losses().TotalLost()) }),
	"arming":      rows.Str(func(r *triggerRow) *string { return &r.arming }),
	"latency":     rows.Count(func(r *triggerRow) int64 { return max(r.t.Latency.Load(), 0) }),
	"overhead":    rows.RealOr(func(r *triggerRow) (float64, bool) { o := r.t.When.Overhead(); return 100 * o, o > 0 }),
	"error":       rows.Text(func(r *triggerRow) string { return r.t.Errors.Get() }),
	"statement":   rows.String(func(r *triggerRow) string { return r.t.Text }),
	"owner":       rows.Text(func(r *triggerRow) string { return r.t.Owner }),
})

type exportRow struct {
	at     int64
	x      *export.Export
	series int
	left   uint64
}

var exportTable = rows.NewTable(catalog.SysExports, rows.Columns[exportRow]{
	"timestamp": rows.Word(func(r *exportRow) *int64 { return &r.at }),
	"export":    rows.String(func(r *exportRow) string { return r.x.Plan.Name }),
	"target":    rows.String(func(r *exportRow) string { return r.x.Target() }),
	"state":     rows.String(func(r *exportRow) string { return r.x.State() }),
	"query_id":  rows.Int(func(r *exportRow) int64 { return r.x.Query.ID }),
	"series":    rows.Int(func(r *exportRow) int64 { return int64(r.series) }),
	"left_out":  rows.Word(func(r *exportRow) *uint64 { return &r.left }),
	"sent":      rows.Int(func(r *exportRow) int64 { return int64(r.x.Sent()) }),
	"lost":      rows.Int(func(r *exportRow) int64 { return int64(r.x.Lost()) }),
	"error":     rows.Text(func(r *exportRow) string { return r.x.Error() }),
	"statement": rows.String(func(r *exportRow) string { return r.x.Text }),
	"owner":     rows.Text(func(r *exportRow) string { return r.x.Owner }),
})

type standingRow struct {
	at      int64
	q       *standing.Query
	state   wire.StandingState
	windows uint64
	bytes   int64
}

var standingTable = rows.NewTable(catalog.SysStanding, rows.Columns[standingRow]{
	"timestamp": rows.Word(func(r *standingRow) *int64 { return &r.at }),
	"query":     rows.String(func(r *standingRow) string { return r.q.Name }),
	"state":     rows.String(func(r *standingRow) string { return r.state.State }),
	"hosts":     rows.Text(func(r *standingRow) string { return r.state.Hosts }),
	"windows":   rows.Word(func(r *standingRow) *uint64 { return &r.windows }),
	"bytes":     rows.Word(func(r *standingRow) *int64 { return &r.bytes }),
	"lost":      rows.Word(func(r *standingRow) *uint64 { return &r.state.Late }),
	"created":   rows.Int(func(r *standingRow) int64 { return r.q.Created.UnixNano() }),
	"error":     rows.Text(func(r *standingRow) string { return r.state.Error }),
	"id":        rows.String(func(r *standingRow) string { return r.q.ID }),
	"statement": rows.String(func(r *standingRow) string { return r.q.Statement }),
	"owner":     rows.Text(func(r *standingRow) string { return r.q.Owner() }),
})
