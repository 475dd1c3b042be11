/* A target whose calls are known: leaf 1,000 times, fib(10) once (177 calls),
 * outer 5 times around middle around inner. */
#include <stdio.h>
#include <unistd.h>

int leaf(int i) { return i * 2; }
int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int inner(int i) { usleep(1000); return i + 1; }
int middle(int i) { return inner(i) * 2; }
int outer(int i) { return middle(i) + 3; }

int main(void)
{
	long sum = 0;
	for (int i = 0; i < 1000; i++)
		sum += leaf(i);
	sum += fib(10);
	for (int i = 0; i < 5; i++)
		sum += outer(i);
	printf("sum %ld\n", sum);
	return 0;
}
