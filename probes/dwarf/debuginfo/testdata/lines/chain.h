static inline long mixed(long a, long b) {
	a ^= b << 13;
	a ^= a >> 7;
	return a * 31 + b;
}
