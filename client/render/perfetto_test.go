package render

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// message is a protocol buffer that was decoded without a schema: for each field its values,
// a number or bytes.
type message map[protowire.Number][]any

func decoded(t *testing.T, b []byte) message {
	t.Helper()
	m := message{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		switch typ {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			m[num], b = append(m[num], v), b[n:]
		case protowire.Fixed64Type:
			v, n := protowire.ConsumeFixed64(b)
			m[num], b = append(m[num], v), b[n:]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				t.Fatal(protowire.ParseError(n))
			}
			m[num], b = append(m[num], v), b[n:]
		default:
			t.Fatal("wire type", typ)
		}
	}
	return m
}

func (m message) number(f protowire.Number) uint64 {
	if len(m[f]) == 0 {
		return 0
	}
	return m[f][0].(uint64)
}

func (m message) text(f protowire.Number) string {
	if len(m[f]) == 0 {
		return ""
	}
	return string(m[f][0].([]byte))
}

func (m message) sub(t *testing.T, f protowire.Number) message {
	if len(m[f]) == 0 {
		return nil
	}
	return decoded(t, m[f][0].([]byte))
}

// timeline replays a trace as its viewer does: it sorts the events by time, and nests the
// slices of each track. A line is "track: depth name begin-end arguments".
func timeline(t *testing.T, data []byte) (lines []string) {
	type event struct {
		at    uint64
		kind  uint64
		track uint64
		name  string
		args  string
		value string
	}
	var events []event
	tracks, names, argNames := map[uint64]string{}, map[uint64]string{}, map[uint64]string{}
	parents := map[uint64]uint64{}
	for _, p := range decoded(t, data)[1] {
		p := decoded(t, p.([]byte))
		if p.number(10) == 0 {
			t.Error("a packet without a sequence")
		}
		if d := p.sub(t, 60); d != nil {
			name := d.text(2)
			if x := d.sub(t, 3); x != nil {
				name = fmt.Sprintf("process %d %s", x.number(1), x.text(6))
			}
			if x := d.sub(t, 4); x != nil {
				name = fmt.Sprintf("thread %d/%d %s", x.number(1), x.number(2), x.text(5))
			}
			if _, ok := d[8]; ok {
				name = fmt.Sprintf("counter %s unit %d", d.text(2), d.sub(t, 8).number(3))
			}
			tracks[d.number(1)], parents[d.number(1)] = name, d.number(5)
			continue
		}
		if in := p.sub(t, 12); in != nil {
			for field, to := range map[protowire.Number]map[uint64]string{2: names, 3: argNames} {
				for _, n := range in[field] {
					n := decoded(t, n.([]byte))
					to[n.number(1)] = n.text(2)
				}
			}
		}
		e := p.sub(t, 11)
		if tracks[e.number(11)] == "" {
			t.Error("an event of a track that is not described")
		}
		x := event{at: p.number(8), kind: e.number(9), track: e.number(11), name: names[e.number(10)]}
		for _, a := range e[4] {
			a := decoded(t, a.([]byte))
			x.args += fmt.Sprintf(" %s=", argNames[a.number(1)])
			switch {
			case a[4] != nil:
				x.args += fmt.Sprint(int64(a.number(4)))
			case a[2] != nil:
				x.args += fmt.Sprint(a.number(2) != 0)
			case a[5] != nil:
				x.args += fmt.Sprint(math.Float64frombits(a.number(5)))
			default:
				x.args += a.text(6)
			}
		}
		switch {
		case e[30] != nil:
			x.value = fmt.Sprint(int64(e.number(30)))
		case e[44] != nil:
			x.value = fmt.Sprint(math.Float64frombits(e.number(44)))
		}
		events = append(events, x)
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(int64(a.at) - int64(b.at)) })
	type open struct {
		event
		line int
	}
	stacks := map[uint64][]open{}
	for _, e := range events {
		track := tracks[e.track]
		if p := parents[e.track]; p != 0 {
			track = tracks[p] + " > " + track
		}
		s := stacks[e.track]
		switch e.kind {
		case 1:
			stacks[e.track] = append(s, open{e, len(lines)})
			lines = append(lines, fmt.Sprintf("%s: %d %s %d-", track, len(s), e.name, e.at))
		case 2:
			if len(s) == 0 {
				t.Errorf("an end without a beginning at %d", e.at)
				continue
			}
			o := s[len(s)-1]
			stacks[e.track] = s[:len(s)-1]
			lines[o.line] += fmt.Sprint(e.at, o.args, e.args)
		case 3:
			lines = append(lines, fmt.Sprintf("%s: %s %d%s", track, e.name, e.at, e.args))
		case 4:
			lines = append(lines, fmt.Sprintf("%s: %d = %s", track, e.at, e.value))
		default:
			t.Errorf("kind %d", e.kind)
		}
	}
	return lines
}

func checkTimeline(t *testing.T, cols []wire.Column, rows [][]types.Value, wantRemark string, want ...string) {
	t.Helper()
	schema := make([]types.Type, len(cols))
	for i, c := range cols {
		schema[i] = c.Type
	}
	b := batch.New(schema)
	for _, row := range rows {
		b.AppendRow(row...)
	}
	data, remark := write(t, Perfetto, cols, Options{}, b)
	if got := timeline(t, data); !slices.Equal(got, want) {
		t.Errorf("trace\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if remark != wantRemark {
		t.Errorf("remark %q, want %q", remark, wantRemark)
	}
}

func ints(typ types.Type, vs ...int64) (out []types.Value) {
	for _, v := range vs {
		out = append(out, types.Value{Type: typ, I: v})
	}
	return out
}

func TestPerfettoNestsCalls(t *testing.T) {
	cols := []wire.Column{{Name: "timestamp", Type: types.Timestamp}, {Name: "pid", Type: types.Bigint}, {Name: "tid", Type: types.Bigint}, {Name: "process", Type: types.Varchar},
		{Name: "thread_name", Type: types.Varchar}, {Name: "event", Type: types.Varchar}, {Name: "function_name", Type: types.Varchar}, {Name: "arg0", Type: types.Bigint}, {Name: "goroutine", Type: types.Bigint}}
	row := func(at, tid int64, event, function string, arg0 types.Value) []types.Value {
		return append(ints(types.Timestamp, at), types.Int(100), types.Int(tid), types.Str("server"), types.Str("worker"), types.Str(event), types.Str(function), arg0, types.NullOf(types.Bigint))
	}
	none := types.NullOf(types.Bigint)
	goroutine := row(60, 8, "ENTER", "handler", none)
	goroutine[8] = types.Int(17)
	checkTimeline(t, cols, [][]types.Value{
		row(5, 7, "LEAVE", "before", none),
		row(10, 7, "ENTER", "main", types.Int(math.MinInt64)),
		row(20, 7, "ENTER", "bad\xff", none),
		row(22, 8, "ENTER", "other", none),
		row(30, 7, "UNWIND", "bad\xff", types.Int(-1)),
		row(40, 8, "GAP", "", none),
		row(50, 7, "LEAVE", "main", none),
		goroutine,
	}, "ends of calls that began before, left out: 1; calls that did not end: 1",
		"process 100 server > thread 100/7 worker: 0 main 10-50 arg0=-9223372036854775808",
		"process 100 server > thread 100/7 worker: 1 bad\ufffd 20-30 arg0=-1",
		"process 100 server > thread 100/8 worker: 0 other 22-40",
		"process 100 server > thread 100/8 worker: GAP 40",
		"process 100 server > goroutine 17: 0 handler 60-")
}

// Rows of function_duration come when the calls end: the inner ones first.
func TestPerfettoNestsDurations(t *testing.T) {
	cols := []wire.Column{{Name: "timestamp", Type: types.Timestamp}, {Name: "start_time", Type: types.Timestamp}, {Name: "duration", Type: types.Duration}, {Name: "tid", Type: types.Bigint},
		{Name: "function_name", Type: types.Varchar}, {Name: "x", Type: types.Double}, {Name: "ok", Type: types.Boolean}, {Name: "l", Type: types.List}}
	row := func(start, end int64, f string) []types.Value {
		return append(ints(types.Timestamp, end, start), types.Dur(end-start), types.Int(7), types.Str(f), types.Float(0.5), types.Bool(true), types.ListOf(ints(types.Bigint, 1, 2)))
	}
	checkTimeline(t, cols, [][]types.Value{
		row(20, 30, "inner"), row(40, 40, "empty"), row(10, 50, "outer"),
		{types.NullOf(types.Timestamp), types.Time(1), types.Dur(1), types.Int(7), types.Str("untimed"), types.NullOf(types.Double), types.NullOf(types.Boolean), types.NullOf(types.List)},
	}, "rows without a time, left out: 1",
		"thread 7/7 : 0 outer 10-50 x=0.5 ok=true l=[1,2]",
		"thread 7/7 : 1 inner 20-30 x=0.5 ok=true l=[1,2]",
		"thread 7/7 : 1 empty 40-40 x=0.5 ok=true l=[1,2]")
}

func TestPerfettoCounts(t *testing.T) {
	cols := []wire.Column{{Name: "timestamp", Type: types.Timestamp}, {Name: "pid", Type: types.Bigint}, {Name: "process", Type: types.Varchar}, {Name: "var_name", Type: types.Varchar},
		{Name: "var_value", Type: types.Bigint}, {Name: "var_real", Type: types.Double}}
	checkTimeline(t, cols, [][]types.Value{
		{types.Time(1), types.Int(9), types.Str("app"), types.Str("queue.length"), types.Int(math.MaxInt64), types.Float(9.2e18)},
		{types.Time(2), types.Int(9), types.Str("app"), types.Str("load"), types.NullOf(types.Bigint), types.Float(0.25)},
		{types.Time(3), types.Int(9), types.Str("app"), types.Str("queue.length"), types.Int(-1), types.Float(-1)},
	}, "",
		"process 9 app > counter queue.length unit 0: 1 = 9223372036854775807",
		"process 9 app > counter load unit 0: 2 = 0.25",
		"process 9 app > counter queue.length unit 0: 3 = -1")
	checkTimeline(t, []wire.Column{{Name: "window_end", Type: types.Timestamp}, {Name: "function_name", Type: types.Varchar}, {Name: "count", Type: types.Bigint}, {Name: "avg", Type: types.Duration}},
		[][]types.Value{{types.Time(1), types.Str("f"), types.Int(3), types.Dur(1500)}}, "",
		"counter count [f] unit 0: 1 = 3", "counter avg [f] unit 1: 1 = 1500")
}

func TestPerfettoShowsProcesses(t *testing.T) {
	cols := []wire.Column{{Name: "timestamp", Type: types.Timestamp}, {Name: "pid", Type: types.Bigint}, {Name: "process", Type: types.Varchar}, {Name: "argv", Type: types.List}}
	checkTimeline(t, cols, [][]types.Value{{types.Time(4), types.Int(3), types.Str("ls"), types.ListOf([]types.Value{types.Str("ls"), types.Str("-l")})}}, "",
		`process 3 ls: ls 4 argv=["ls","-l"]`)
}

// Names are written once, and again when there are too many of them.
func TestPerfettoWritesNamesOnce(t *testing.T) {
	cols := []wire.Column{{Name: "timestamp", Type: types.Timestamp}, {Name: "name", Type: types.Varchar}}
	b := batch.New([]types.Type{types.Timestamp, types.Varchar})
	for i := range int64(1000) {
		b.AppendRow(types.Time(i), types.Str("a long name that is not repeated"))
	}
	data, _ := write(t, Perfetto, cols, Options{}, b)
	if n := strings.Count(string(data), "a long name"); n != 1 {
		t.Errorf("the name is there %d times", n)
	}
	var all []*batch.Batch
	for i := range 70 {
		b := batch.New([]types.Type{types.Timestamp, types.Varchar})
		for k := range 1000 {
			b.AppendRow(types.Time(int64(i*1000+k)), types.Str(fmt.Sprint("name ", i*1000+k)))
		}
		all = append(all, b)
	}
	data, _ = write(t, Perfetto, cols, Options{}, all...)
	lines := timeline(t, data)
	if len(lines) != 70_000 || lines[69_999] != "events: name 69999 69999" {
		t.Errorf("%d events, the last %s", len(lines), lines[len(lines)-1])
	}
}
