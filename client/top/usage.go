package top

import (
	"context"

	"endoscope/operators/batch"
)

// The statements that say how much CPU time the processes of the target use.
const (
	// load is asked first.
	load = "SELECT timestamp, SUM(percent_cpu) FROM SAMPLE(process_usage, 500ms) GROUP BY timestamp FOR 1200ms"
	// usage is asked all the time.
	usage = "SELECT timestamp, SUM(percent_cpu) FROM TUMBLE(SAMPLE(process_usage, 4s), 4s) GROUP BY timestamp"
)

// load returns how many CPUs the target uses, at least leastCPUs.
func (m *Meter) load(ctx context.Context) float64 {
	most := 0.0
	m.cpusOf(ctx, load, func(cpus float64) { most = max(most, cpus) })
	m.use(most)
	return max(most, leastCPUs)
}

// follow records how many CPUs the target uses until it has ended.
func (m *Meter) follow(ctx context.Context) { m.cpusOf(ctx, usage, m.use) }

// use records how many CPUs the target has used since the last time.
func (m *Meter) use(cpus float64) {
	const weight = 0.5 // of the last time
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used < 0 {
		m.used = cpus
	}
	m.used += weight * (cpus - m.used)
}

// cpusOf calls visit with the CPUs of each row of a statement.
func (m *Meter) cpusOf(ctx context.Context, statement string, visit func(cpus float64)) {
	res, err := m.session.Execute(ctx, statement)
	if err != nil {
		return // what needs it goes by stack samples
	}
	_ = read(ctx, res, func(b *batch.Batch) {
		for i := range b.Len() {
			if v := b.Cols[1].Value(b.Row(i)); !v.IsNull {
				visit(v.F / 100)
			}
		}
	}, nil, nil)
}
