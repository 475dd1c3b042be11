/*
 * A knight's tour of a board, found by trying: a Hamiltonian path of the graph
 * that the knight's moves make. It ends after so many calls. What it calls, a
 * letter each, and "<" for each return, it writes to the file that is named. Now and
 * then it pauses, so that who watches on the same processor comes to its turn.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
enum { SIZE = 6, SQUARES = SIZE * SIZE };

static char *told;
static long calls, paused, most, length;
static int board[SIZE][SIZE];
static const int dx[8] = {1, 2, 2, 1, -1, -2, -2, -1}, dy[8] = {2, 1, -1, -2, -2, -1, 1, 2};

static void enter(char c) { told[length++] = c; calls++; }
static void leave(void) { told[length++] = '<'; }

NOINLINE int is_free(int x, int y)
{
	enter('f');
	int yes = x >= 0 && x < SIZE && y >= 0 && y < SIZE && !board[x][y];
	leave();
	return yes;
}

NOINLINE void visit(int x, int y, int n) { enter('v'); board[x][y] = n; leave(); }
NOINLINE void take_back(int x, int y) { enter('t'); board[x][y] = 0; leave(); }

NOINLINE int find_rest(int x, int y, int n)
{
	int found = 0;

	enter('r');
	if (calls - paused > 1000) {
		paused = calls;
		usleep(1000);
	}
	visit(x, y, n);
	if (n == SQUARES || calls > most)
		found = 1;
	for (int i = 0; !found && i < 8; i++)
		if (is_free(x + dx[i], y + dy[i]))
			found = find_rest(x + dx[i], y + dy[i], n + 1);
	if (!found)
		take_back(x, y);
	leave();
	return found;
}

int main(int argc, char **argv)
{
	most = atol(argv[1]);
	told = malloc(2 * most + 1000);
	find_rest(0, 1, 1);
	FILE *f = fopen(argv[2], "w");
	fwrite(told, 1, length, f);
	return fclose(f);
}
