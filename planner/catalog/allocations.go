package catalog

// Streams of memory allocation (probes/uprobe).
const (
	Allocation   = "allocation"
	Deallocation = "deallocation"
)

const allocatorHow = "eBPF uprobes on malloc, calloc, realloc, free and similar functions in all modules of the target: the C library's, jemalloc's and tcmalloc's, with the operators new and delete of the latter two; Go's mallocgc"

var allocations = []*Stream{
	{Name: Allocation, Kind: Enumerable, Process: true, Functions: true,
		Doc: "a tuple for each allocation of memory, at the return of the allocator's outermost function; a realloc that succeeds is an allocation, and a deallocation before it",
		How: allocatorHow + returnHow, Cost: "0.9 µs a call; 18 µs where exits are stepped: Go's, operators new of jemalloc and tcmalloc", Needs: uprobeNeeds,
		Columns: columns(stamp, who, function, []Column{
			{"address", tI, "", "address of the memory"},
			{"size", tI, "bytes", "size requested"},
		}), Asked: columns(contained, origin)},
	{Name: Deallocation, Kind: Enumerable, Process: true, Functions: true,
		Doc: "a tuple for each release of memory by a call; timestamp is when the call began, after which the memory may be allocated again",
		How: allocatorHow + returnHow, Cost: "0.9 µs a call", Needs: uprobeNeeds,
		Columns: columns(stamp, who, function, []Column{
			{"address", tI, "", "address of the memory"},
			{"size", tI, "bytes", "size that the call states; NULL where it states none, as most do"},
		}), Asked: columns(contained, origin)},
}
