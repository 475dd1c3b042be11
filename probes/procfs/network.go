package procfs

import (
	"bytes"
	"endoscope/planner/catalog"
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

// newNetworkSampler reads /proc/self/net/dev: the interfaces of our own network
// namespace.
func newNetworkSampler(w window) *deviceSampler[netCounters] {
	return newDeviceSampler(w, "/proc/self/net/dev", netTime, netInterface, readNetwork, networkRates)
}

// readNetwork parses a line: an interface's name, rx bytes, packets, errs, drop,
// fifo, frame, compressed, multicast, then the same of tx with other last four.
// An interface's name may contain a colon, a counter does not. The two header
// lines contain none.
func readNetwork(line text) (name []byte, c netCounters, ok bool) {
	colon := bytes.LastIndexByte(line, ':')
	if colon < 0 {
		return nil, c, false
	}
	name, line = bytes.TrimLeft(line[:colon], " "), line[colon+1:]
	for half := range 2 {
		for i := range 4 {
			c[2*i+half] = line.count()
		}
		line.skip(4)
	}
	return name, c, true
}

func networkRates(then, now netCounters, elapsed int64, out *output) {
	for k := range now {
		out.float(netRates[k], perSecond(then[k], now[k], elapsed))
	}
}
