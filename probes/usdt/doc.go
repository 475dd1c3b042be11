// Package usdt reads the static probes (<sys/sdt.h>) from the notes of an ELF
// file. It must not know processes, eBPF, SQL or streams.
package usdt
