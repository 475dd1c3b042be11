/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queries with a budget: what each hit of a probe costs the program is added up, whether or
 * not the hit counts, so that user space notices an excess in milliseconds.
 */
#ifndef ENDOSCOPE_BUDGET_H
#define ENDOSCOPE_BUDGET_H

#include "counters.h"

/*
 * The price of a call, by function, ns. With RETIRED its calls do not count any more: user
 * space sets it at one instant, and then detaches the probe, which takes longer.
 */
#define RETIRED (1ULL << 63)
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, __u64);
} prices SEC(".maps");

/* What was spent on a CPU, each in its cache line. */
struct spending {
	__u64 ns;
	__u64 unused[7];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct spending);
} spent SEC(".maps");

/* charge counts a hit and adds its price. It reports whether the function is retired. */
static __always_inline bool charge(__u64 cookie)
{
	if (!budgeted)
		return false;
	__u32 id = ID(cookie), cpu = bpf_get_smp_processor_id();
	__u64 *n = bpf_map_lookup_elem(&hits, &id);
	__u64 *price = bpf_map_lookup_elem(&prices, &id);
	struct spending *s = bpf_map_lookup_elem(&spent, &cpu);

	if (n)
		COUNT(*n);
	if (!price || !s)
		return true; /* never */
	__u64 p = *(volatile __u64 *)price;
	__sync_fetch_and_add(&s->ns, p & ~RETIRED);
	return p & RETIRED;
}

#endif
