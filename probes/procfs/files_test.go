package procfs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// samples gives a sampler the contents of a file one after the other, a second
// apart, and returns the rows of the last as text, without timestamp.
func samples(t *testing.T, stream string, make func(w window) (sampler, *file), contents ...string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	s, f := make(newWindow(time.Second, DefaultRateWindow))
	*f = newFile(unix.AT_FDCWD, path, nil)
	defer s.close()
	var r *recorder
	for i, content := range contents {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := newOutput(&plan.Acquire{Stream: stream, Out: types.Schema{Fields: tables[stream].Fields()[1:]}})
		if err != nil {
			t.Fatal(err)
		}
		r = newRecorder(t, types.Schema{Fields: tables[stream].Fields()[1:]})
		out.sink = r
		if err := s.sample(int64(i)*1e9, out); err != nil {
			t.Fatal(err)
		}
		out.flush()
	}
	var lines []string
	for _, row := range r.rows {
		line := ""
		for i, v := range row {
			line += fmt.Sprintf("%s=%s ", tables[stream].Fields()[i+1].Name, plan.FormatValue(v))
		}
		lines = append(lines, line[:len(line)-1])
	}
	return lines
}

func TestCPU(t *testing.T) {
	all := func(w window) (sampler, *file) { s := newCPUSampler(w, false); return s, &s.file }
	cores := func(w window) (sampler, *file) { s := newCPUSampler(w, true); return s, &s.file }
	//        user nice system idle iowait irq softirq steal guest guest_nice
	before := "cpu  100 10 50 1000 20 1 2 3 7 0\ncpu0 50 5 25 500 10 0 1 1 7 0\ncpu2 50 5 25 500 10 1 1 2 0 0\nintr 1 2 3\nctxt 9\n"
	after := "cpu  130 20 60 1130 25 3 5 13 9 0\ncpu0 80 15 35 530 15 2 4 11 9 0\ncpu2 50 5 25 600 10 1 1 2 0 0\nintr 1 2 4\nctxt 10\n"
	for _, c := range []struct {
		name     string
		make     func(w window) (sampler, *file)
		stream   string
		contents []string
		want     []string
	}{
		// Of 200 ticks: user 30 + nice 10, system 10 + 2 + 3, steal 10, iowait 5, idle 130.
		{"all", all, "cpu_usage", []string{before, after}, []string{
			"percent_busy=32.5 percent_idle=65 percent_user=20 percent_system=7.5 percent_iowait=2.5 percent_steal=5"}},
		{"cores", cores, "cpu_core_usage", []string{before, after}, []string{
			"percent_busy=65 percent_idle=30 percent_user=40 percent_system=15 percent_iowait=5 percent_steal=10 cpu=0",
			"percent_busy=0 percent_idle=100 percent_user=0 percent_system=0 percent_iowait=0 percent_steal=0 cpu=2"}},
		{"first reading", all, "cpu_usage", []string{before}, []string{
			"percent_busy=null percent_idle=null percent_user=null percent_system=null percent_iowait=null percent_steal=null"}},
		{"nothing counted", all, "cpu_usage", []string{before, before}, []string{
			"percent_busy=null percent_idle=null percent_user=null percent_system=null percent_iowait=null percent_steal=null"}},
		{"iowait shrinks", all, "cpu_usage", []string{before, "cpu  200 10 50 1000 5 1 2 3 7 0\n"}, []string{
			"percent_busy=100 percent_idle=0 percent_user=100 percent_system=0 percent_iowait=0 percent_steal=0"}},
		{"as many ticks as 100 is not divided by", all, "cpu_usage", []string{"cpu  0 0 0 5 0\n", "cpu  11 0 0 5 0\n"}, []string{
			"percent_busy=100 percent_idle=0 percent_user=100 percent_system=0 percent_iowait=0 percent_steal=0"}},
		{"a CPU comes", cores, "cpu_core_usage", []string{"cpu0 1 1 1 1\n", "cpu0 2 1 1 2\ncpu1 9 9 9 9\n"}, []string{
			"percent_busy=50 percent_idle=50 percent_user=50 percent_system=0 percent_iowait=0 percent_steal=0 cpu=0",
			"percent_busy=null percent_idle=null percent_user=null percent_system=null percent_iowait=null percent_steal=null cpu=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, samples(t, c.stream, c.make, c.contents...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMemory(t *testing.T) {
	got := samples(t, "memory_usage", func(window) (sampler, *file) { s := newMemorySampler(); return s, &s.file },
		"MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    750 kB\nBuffers:  1 kB\nCached:           40 kB\n"+
			"SwapCached:       3 kB\nSwapTotal:       100 kB\nSwapFree:        60 kB\nDirty: 7 kB\n")
	want := []string{"total=1024000 used=256000 available=768000 percent_used=25 cached=40960 swap_used=40960"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNetwork(t *testing.T) {
	const head = "Inter-|   Receive                  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed\n"
	got := samples(t, "network_usage", func(w window) (sampler, *file) { s := newNetworkSampler(w); return s, &s.file },
		head+"    lo: 100 10 0 0 0 0 0 0 100 10 0 0 0 0 0 0\n  eth0:1000 20 1 2 0 0 0 0 500 30 3 4 0 0 0 0\n",
		head+"    lo: 100 10 0 0 0 0 0 0 100 10 0 0 0 0 0 0\n  eth0:3000 25 3 6 9 9 9 9 400 35 6 8 9 9 9 9\n veth:1: 5 5 5 5 0 0 0 0 5 5 5 5 0 0 0 0\n")
	want := []string{
		"interface='lo' rx_bytes_per_s=0 tx_bytes_per_s=0 rx_packets_per_s=0 tx_packets_per_s=0 rx_errors_per_s=0 tx_errors_per_s=0 rx_drops_per_s=0 tx_drops_per_s=0",
		// The tx byte counter was reset.
		"interface='eth0' rx_bytes_per_s=2000 tx_bytes_per_s=0 rx_packets_per_s=5 tx_packets_per_s=5 rx_errors_per_s=2 tx_errors_per_s=3 rx_drops_per_s=4 tx_drops_per_s=4",
		"interface='veth:1' rx_bytes_per_s=null tx_bytes_per_s=null rx_packets_per_s=null tx_packets_per_s=null rx_errors_per_s=null tx_errors_per_s=null rx_drops_per_s=null tx_drops_per_s=null",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDisk(t *testing.T) {
	whole := func(w window) (sampler, *file) {
		s := newDiskSampler(w)
		for _, name := range []string{"vda", "loop0"} {
			s.devices[name] = &device[diskCounters]{name: name}
		}
		s.devices["vda1"] = &device[diskCounters]{name: "vda1", ignored: true}
		return s, &s.file
	}
	got := samples(t, "disk_usage", whole,
		"   7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n 254 0 vda 100 5 2000 40 50 5 1000 30 0 200 70 0 0 0 0 0 0\n 254 1 vda1 9 9 9 9 9 9 9 9 9 9 9\n",
		"   7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n 254 0 vda 110 9 2100 90 53 9 1006 90 1 450 99 0 0 0 0 0 0\n 254 1 vda1 9 9 9 9 9 9 9 9 9 9 9\n")
	want := []string{"device='vda' reads_per_s=10 writes_per_s=3 read_bytes_per_s=51200 write_bytes_per_s=3072 percent_busy=25"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPressure(t *testing.T) {
	contents := []string{
		"some avg10=0.20 avg60=0.75 avg300=12.33 total=7000000\nfull avg10=0.00 avg60=0.01 avg300=0.00 total=100\n",
		"some avg10=1.20 avg60=0.75 avg300=12.33 total=7250000\nfull avg10=0.00 avg60=0.01 avg300=99.00 total=50100\n",
	}
	one := func(w window) (sampler, *file) {
		s := newPressureSampler(w)
		s.resources = s.resources[:1]
		return s, &s.resources[0].file
	}
	got := samples(t, "pressure", one, contents...)
	want := []string{"resource='cpu' some_avg10=1.2 some_avg60=0.75 some_avg300=12.33 full_avg10=0 full_avg60=0.01 full_avg300=99 some_percent=25 full_percent=5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = samples(t, "pressure", one, "some avg10=0.20 avg60=0.75 avg300=0.33 total=0\n", "some avg10=0.20 avg60=0.75 avg300=0.33 total=1000000\n")
	want = []string{"resource='cpu' some_avg10=0.2 some_avg60=0.75 some_avg300=0.33 full_avg10=null full_avg60=null full_avg300=null some_percent=100 full_percent=null"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("without full: ", diff)
	}
}

// The parsers against prometheus/procfs, both on one copy of this machine's
// files.
func TestScannersAgainstOracle(t *testing.T) {
	dir := t.TempDir()
	read := func(name string) text {
		t.Helper()
		b, err := os.ReadFile("/proc/" + name)
		if err != nil {
			testenv.Skip(t, "%v", err)
		}
		to := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(to), 0o755)
		if err := os.WriteFile(to, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return text(b)
	}
	stat, diskstats, netdev := read("stat"), read("diskstats"), read("net/dev")
	oracle, err := procfs.NewFS(dir)
	if err != nil {
		t.Fatal(err)
	}

	want, err := oracle.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for {
		line, _ := stat.line()
		name, isCPU := strings.CutPrefix(string(line.word()), "cpu")
		if !isCPU {
			break
		}
		w := want.CPUTotal
		if name != "" {
			n, _ := strconv.ParseInt(name, 10, 64)
			w = want.CPU[n]
		}
		got := readTicks(line)
		for _, c := range []struct {
			field string
			ticks uint64
			s     float64
		}{{"user", got.user, w.User + w.Nice}, {"system", got.system, w.System + w.IRQ + w.SoftIRQ},
			{"idle", got.idle, w.Idle}, {"iowait", got.iowait, w.Iowait}, {"steal", got.steal, w.Steal}} {
			if math.Abs(float64(c.ticks)-c.s*100) > 0.5 {
				t.Errorf("cpu%s %s: %d ticks, want %.2f s", name, c.field, c.ticks, c.s)
			}
		}
	}

	disks, err := blockdevice.NewFS(dir, "/sys")
	if err != nil {
		t.Fatal(err)
	}
	wantDisks, err := disks.ProcDiskstats()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wantDisks {
		line, _ := diskstats.line()
		name, got, _ := readDisk(line)
		if string(name) != w.DeviceName || got != (diskCounters{w.ReadIOs, w.ReadSectors, w.WriteIOs, w.WriteSectors, w.IOsTotalTicks}) {
			t.Errorf("%s %+v, want %+v", name, got, w)
		}
	}

	wantNet, err := oracle.NetDev()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wantNet {
		line, ok := netdev.after(w.Name + ":")
		line, _ = line.line()
		name, got, hasName := readNetwork(append([]byte(w.Name+":"), line...))
		if !ok || !hasName || string(name) != w.Name || got != (netCounters{w.RxBytes, w.TxBytes, w.RxPackets, w.TxPackets, w.RxErrors, w.TxErrors, w.RxDropped, w.TxDropped}) {
			t.Errorf("%s %v, want %+v", w.Name, got, w)
		}
	}
}

func anyDiskUsed(t *testing.T) bool {
	s := newDiskSampler(newWindow(time.Second, time.Second))
	defer s.close()
	out, err := newOutput(&plan.Acquire{Stream: "disk_usage", Out: types.Schema{Fields: tables["disk_usage"].Fields()}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder(t, types.Schema{Fields: tables["disk_usage"].Fields()})
	out.sink = r
	if err := s.sample(1, out); err != nil {
		t.Fatal(err)
	}
	out.flush()
	return len(r.rows) > 0
}

func TestScannerAgainstFmt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.SliceOf(rapid.Uint64()).Draw(t, "numbers")
		d := rapid.Uint64Range(0, 1e15).Draw(t, "hundredths")
		var b []byte
		for _, n := range ns {
			b = fmt.Appendf(b, " %d\t", n)
		}
		b = fmt.Appendf(b, "%d.%02d rest\nnext", d/100, d%100)
		s := text(b)
		for _, n := range ns {
			if got, ok := s.uint(); !ok || got != n {
				t.Fatalf("%d, %v; want %d", got, ok, n)
			}
		}
		if got, ok := s.decimal(); !ok || !cmp.Equal(got, float64(d)/100, cmpopts.EquateApprox(1e-12, 0)) {
			t.Fatalf("%v, %v; want %v", got, ok, float64(d)/100)
		}
		if line, ok := s.line(); !ok || string(line) != " rest" {
			t.Fatalf("%q", line)
		}
		if line, ok := s.line(); !ok || string(line) != "next" {
			t.Fatalf("%q", line)
		}
		if _, ok := s.line(); ok {
			t.Fatal("a line after the last")
		}
	})
}

// A window's base against a naive search of all readings.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.Int64Range(1, 200).Draw(t, "every")) * time.Millisecond
		rate := time.Duration(rapid.Int64Range(20, 500).Draw(t, "rate")) * time.Millisecond
		w := newWindow(every, rate)
		var h history[int64]
		var at []int64
		now := int64(1e12)
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			then, v, ok := h.base(w, now, now)
			if ok != (len(at) > 0) || v != then {
				t.Fatalf("base %d, value %d, %v after %d readings", then, v, ok, len(at))
			}
			if ok {
				if !slices.Contains(at, then) {
					t.Fatalf("%d was never read", then)
				}
				age, oldest := time.Duration(now-then), time.Duration(now-at[0])
				if least := min(w.length-w.slack, oldest); age < least {
					t.Fatalf("rate covers %v, less than %v", age, least)
				}
				// No reading that is old enough is younger by more than the
				// spacing at which readings are kept.
				for _, a := range at {
					if d := time.Duration(now - a); d >= w.length-w.slack && age-d > max(w.gap, 0) {
						t.Fatalf("rate covers %v though there is a reading %v old", age, d)
					}
				}
			}
			at = append(at, now)
			jitter := rapid.Int64Range(0, int64(every)/3).Draw(t, "jitter")
			missed := rapid.SampledFrom([]int64{0, 0, 0, 0, 1, 5}).Draw(t, "missed")
			now = int64(1e12) + (int64(len(at))+missed)*int64(every) + jitter
			if now <= at[len(at)-1] {
				now = at[len(at)-1] + int64(every)
			}
		}
	})
}
