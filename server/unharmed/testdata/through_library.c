/* The C library of through.cc. */
__attribute__((noinline)) long through_leaf(long n) { return n * 2; }

__attribute__((noinline)) long through_walk(long n, long (*visit)(long))
{
	if (n == 0)
		return 0;
	long rest = through_walk(n - 1, visit);
	return rest + visit(n) + through_leaf(n);
}
