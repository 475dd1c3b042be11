/*
 * A recursive-descent parser of arithmetic, over expressions that it makes up.
 * It logs its calls as knight.c does. With "wrong" it takes one token too many,
 * once.
 */
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))

static char *told, *text;
static long length;
static const char *at;
static int wrong;

static void enter(char c) { told[length++] = c; }
static long leave(long v) { told[length++] = '<'; return v; }

static unsigned long seed = 88172645463325252;
static unsigned random_(unsigned below)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return seed % below;
}

static char *make(char *p, int depth)
{
	for (int n = random_(3); n >= 0; n--) {
		if (depth < 5 && !random_(3)) {
			*p++ = '(';
			p = make(p, depth + 1);
			*p++ = ')';
		} else {
			*p++ = '1' + random_(9);
		}
		if (n)
			*p++ = "+-*"[random_(3)];
	}
	return p;
}

NOINLINE char peek(void) { enter('p'); leave(0); return *at; }
NOINLINE void next(void) { enter('n'); at++; leave(0); }

long expression(void);

NOINLINE long number(void)
{
	long v = 0;

	enter('d');
	while (peek() >= '0' && peek() <= '9') {
		v = 10 * v + (*at - '0');
		next();
	}
	return leave(v);
}

NOINLINE long factor(void)
{
	long v;

	enter('f');
	if (peek() == '(') {
		next();
		v = expression();
		next();
		if (wrong && random_(100) == 7)
			next(), at--, wrong = 0;
	} else {
		v = number();
	}
	return leave(v);
}

NOINLINE long term(void)
{
	enter('t');
	long v = factor();
	while (peek() == '*') {
		next();
		v *= factor();
	}
	return leave(v);
}

NOINLINE long expression(void)
{
	enter('e');
	long v = term();
	for (char c = peek(); c == '+' || c == '-'; c = peek()) {
		next();
		long w = term();
		v = c == '+' ? v + w : v - w;
	}
	return leave(v);
}

int main(int argc, char **argv)
{
	long n = atol(argv[1]), sum = 0;

	told = malloc(64 << 20);
	text = malloc(1 << 20);
	wrong = argc > 3;
	for (long i = 0; i < n; i++) {
		*make(text, 0) = 0;
		at = text;
		sum += expression();
	}
	FILE *f = fopen(argv[2], "w");
	fwrite(told, 1, length, f);
	return fclose(f);
}
