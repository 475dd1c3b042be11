// Package usdt reads the probes that a program's author has marked with <sys/sdt.h>, from
// the notes of an ELF file. It must not know processes, eBPF, SQL or streams.
package usdt
