package procfs

import (
	"bytes"
	"endoscope/planner/catalog"
	"maps"

	"golang.org/x/sys/unix"
)

// Positions of the columns; the rates are in the order of netCounters.
var (
	netTime      = catalog.Position(catalog.NetworkUsage, "timestamp")
	netInterface = catalog.Position(catalog.NetworkUsage, "interface")
	netRates     = catalog.Positions(catalog.NetworkUsage, "rx_bytes_per_s", "tx_bytes_per_s", "rx_packets_per_s", "tx_packets_per_s",
		"rx_errors_per_s", "tx_errors_per_s", "rx_drops_per_s", "tx_drops_per_s")
)

// netCounters are rx and tx bytes, packets, errors, drops.
type netCounters [8]uint64

type network struct {
	name string
	past history[netCounters]
	seen int64 // the last sample that contained it
}

// networkSampler reads /proc/self/net/dev: the interfaces of our own network
// namespace.
type networkSampler struct {
	file       file
	buf        []byte
	window     window
	interfaces map[string]*network
}

func newNetworkSampler(w window) *networkSampler {
	return &networkSampler{
		file: newFile(unix.AT_FDCWD, "/proc/self/net/dev", nil), buf: make([]byte, 16<<10),
		window: w, interfaces: map[string]*network{},
	}
}

func (s *networkSampler) sample(at int64, out *output) error {
	b, err := s.file.read(&s.buf)
	if err != nil {
		return err
	}
	t := text(b)
	n := 0
	for {
		line, ok := t.line()
		if !ok {
			break
		}
		// An interface's name may contain a colon, a counter does not. The two
		// header lines contain none.
		colon := bytes.LastIndexByte(line, ':')
		if colon < 0 {
			continue
		}
		name := bytes.TrimLeft(line[:colon], " ")
		i := s.interfaces[string(name)]
		if i == nil {
			i = &network{name: string(name)}
			s.interfaces[i.name] = i
		}
		n++
		i.seen = at
		s.row(at, i, readNetwork(line[colon+1:]), out)
	}
	if len(s.interfaces) > n { // interfaces of containers that have gone
		maps.DeleteFunc(s.interfaces, func(_ string, i *network) bool { return i.seen != at })
	}
	return nil
}

// readNetwork parses rx bytes, packets, errs, drop, fifo, frame, compressed,
// multicast, then the same of tx with other last four.
func readNetwork(line text) (c netCounters) {
	for half := range 2 {
		for i := range 4 {
			c[2*i+half] = line.count()
		}
		line.skip(4)
	}
	return c
}

func (s *networkSampler) row(at int64, i *network, now netCounters, out *output) {
	since, then, ok := i.past.base(s.window, at, now)
	out.int(netTime, at)
	out.str(netInterface, i.name)
	if elapsed := at - since; ok && elapsed > 0 {
		for k := range now {
			out.float(netRates[k], perSecond(then[k], now[k], elapsed))
		}
	}
	out.emit()
}

func (s *networkSampler) close() { s.file.close() }
