/*
 * A database application in one thread: SQLite, linked statically, under a load
 * of TPC-C's five transactions in TPC-C's mix (its tables, reduced: one
 * warehouse, 10 districts of 100 customers, 1,000 items, and of each district
 * the last 100 orders, so that the work is the same however long it goes on).
 *
 *   tpcc THREADS REFERENCE
 *
 * THREADS others sleep meanwhile. It says "ready"; for each line "SHAPE MS" it
 * then works for that many ms by a schedule of SHAPE, and prints the processor
 * time that this took, ns, and the transactions made. The schedule is open: what
 * comes too late is made up for.
 *
 * REFERENCE is this file again, as a library with a database and an SQLite of its
 * own: except in quiet times it makes a transaction in each step, too, and in bursts and
 * audits one after each piece of work. Their processor time is told apart, as the third
 * number, and their number as the fourth: how fast the processor was in these moments.
 *
 * The steps of the schedules take 10 ms:
 *
 *   bursts   transactions in each step; once in 500 ms a report, and once a
 *            digest, which keeps a CPU busy for two steps
 *   audits   the same with five reports in one: nothing else takes nearly as long,
 *            even where the processor is taken away for some milliseconds
 *   quiet    a transaction in each step
 *   day      ten transactions in each step
 *   night    a transaction in each tenth step
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DISTRICTS = 10, CUSTOMERS = 100, ITEMS = 1000, ORDERS = 100, HISTORY = 5000, PER_STEP = 3 };

static sqlite3 *db;

static void die(const char *what)
{
	fprintf(stderr, "tpcc: %s: %s\n", what, db ? sqlite3_errmsg(db) : "");
	exit(1);
}

static void sql(const char *text)
{
	if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
		die(text);
}

static sqlite3_stmt *prepare(const char *text)
{
	sqlite3_stmt *s;
	if (sqlite3_prepare_v2(db, text, -1, &s, NULL) != SQLITE_OK)
		die(text);
	return s;
}

/* run binds integers and steps to the end; it returns the first column of the
 * last row. */
static int64_t run(sqlite3_stmt *s, int n, const int64_t *args)
{
	int64_t out = 0;
	for (int i = 0; i < n; i++)
		sqlite3_bind_int64(s, i + 1, args[i]);
	int rc;
	while ((rc = sqlite3_step(s)) == SQLITE_ROW)
		out = sqlite3_column_int64(s, 0);
	if (rc != SQLITE_DONE)
		die(sqlite3_sql(s));
	sqlite3_reset(s);
	return out;
}
#define RUN(s, ...) run(s, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

#define SEED 0x9e3779b97f4a7c15
static uint64_t seed = SEED;
static int64_t random_to(int64_t n) /* 1..n */
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return 1 + (int64_t)(seed % (uint64_t)n);
}

static struct {
	sqlite3_stmt *next_order, *take_order, *order, *pending, *price, *stock, *take_stock, *line;
	sqlite3_stmt *forget_order, *forget_lines;
	sqlite3_stmt *pay_warehouse, *pay_district, *pay_customer, *history;
	sqlite3_stmt *last_order, *lines, *oldest, *deliver, *delivered, *credit, *low;
} q;

static void load(void)
{
	sql("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;"
	    "CREATE TABLE warehouse (w INTEGER PRIMARY KEY, ytd INT);"
	    "CREATE TABLE district (d INTEGER PRIMARY KEY, ytd INT, next_o INT);"
	    "CREATE TABLE customer (d INT, c INT, balance INT, payments INT, data TEXT, PRIMARY KEY (d, c)) WITHOUT ROWID;"
	    "CREATE TABLE item (i INTEGER PRIMARY KEY, name TEXT, price INT);"
	    "CREATE TABLE stock (i INTEGER PRIMARY KEY, quantity INT, ytd INT, data TEXT);"
	    "CREATE TABLE orders (d INT, o INT, c INT, lines INT, carrier INT, PRIMARY KEY (d, o)) WITHOUT ROWID;"
	    "CREATE INDEX orders_of ON orders (d, c, o);"
	    "CREATE TABLE new_order (d INT, o INT, PRIMARY KEY (d, o)) WITHOUT ROWID;"
	    "CREATE TABLE order_line (d INT, o INT, n INT, i INT, quantity INT, amount INT, delivered INT, PRIMARY KEY (d, o, n)) WITHOUT ROWID;"
	    "CREATE TABLE history (n INTEGER PRIMARY KEY, d INT, c INT, amount INT);"
	    "BEGIN; INSERT INTO warehouse VALUES (1, 0);");
	sqlite3_stmt *s = prepare("INSERT INTO district VALUES (?, 0, 1)");
	for (int d = 1; d <= DISTRICTS; d++)
		RUN(s, d);
	sqlite3_finalize(s);
	s = prepare("INSERT INTO customer VALUES (?, ?, 0, 0, printf('%.*c', 200, 'x'))");
	for (int d = 1; d <= DISTRICTS; d++)
		for (int c = 1; c <= CUSTOMERS; c++)
			RUN(s, d, c);
	sqlite3_finalize(s);
	s = prepare("INSERT INTO item VALUES (?1, printf('item %d', ?1), ?2)");
	for (int i = 1; i <= ITEMS; i++)
		RUN(s, i, random_to(100));
	sqlite3_finalize(s);
	s = prepare("INSERT INTO stock VALUES (?, 50, 0, printf('%.*c', 100, 'y'))");
	for (int i = 1; i <= ITEMS; i++)
		RUN(s, i);
	sqlite3_finalize(s);
	sql("COMMIT");

	q.next_order = prepare("SELECT next_o FROM district WHERE d = ?");
	q.take_order = prepare("UPDATE district SET next_o = next_o + 1 WHERE d = ?");
	q.order = prepare("INSERT INTO orders VALUES (?, ?, ?, ?, NULL)");
	q.pending = prepare("INSERT INTO new_order VALUES (?, ?)");
	q.price = prepare("SELECT price FROM item WHERE i = ?");
	q.stock = prepare("SELECT quantity FROM stock WHERE i = ?");
	q.take_stock = prepare("UPDATE stock SET quantity = ?2, ytd = ytd + ?3 WHERE i = ?1");
	q.line = prepare("INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, NULL)");
	q.forget_order = prepare("DELETE FROM orders WHERE d = ? AND o = ?");
	q.forget_lines = prepare("DELETE FROM order_line WHERE d = ? AND o = ?");
	q.pay_warehouse = prepare("UPDATE warehouse SET ytd = ytd + ? WHERE w = 1");
	q.pay_district = prepare("UPDATE district SET ytd = ytd + ?2 WHERE d = ?1");
	q.pay_customer = prepare("UPDATE customer SET balance = balance - ?3, payments = payments + 1 WHERE d = ?1 AND c = ?2");
	q.history = prepare("INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?)");
	q.last_order = prepare("SELECT max(o) FROM orders WHERE d = ? AND c = ?");
	q.lines = prepare("SELECT sum(amount) FROM order_line WHERE d = ? AND o = ?");
	q.oldest = prepare("SELECT min(o) FROM new_order WHERE d = ?");
	q.deliver = prepare("DELETE FROM new_order WHERE d = ? AND o = ?");
	q.delivered = prepare("UPDATE order_line SET delivered = 1 WHERE d = ? AND o = ?");
	q.credit = prepare("UPDATE customer SET balance = balance + ?3 WHERE d = ?1 AND c = (SELECT c FROM orders WHERE d = ?1 AND o = ?2)");
	q.low = prepare("SELECT count(DISTINCT l.i) FROM order_line l JOIN stock s ON s.i = l.i WHERE l.d = ?1 AND l.o >= ?2 AND s.quantity < 60");
}

#define NOINLINE __attribute__((noinline))
#define INLINE static inline __attribute__((always_inline))

NOINLINE void new_order(void)
{
	int64_t d = random_to(DISTRICTS), c = random_to(CUSTOMERS), lines = 4 + random_to(11);
	sql("BEGIN");
	int64_t o = RUN(q.next_order, d);
	RUN(q.take_order, d);
	RUN(q.order, d, o, c, lines);
	RUN(q.pending, d, o);
	for (int64_t n = 1; n <= lines; n++) {
		int64_t i = random_to(ITEMS), quantity = random_to(10);
		int64_t price = RUN(q.price, i), left = RUN(q.stock, i);
		RUN(q.take_stock, i, left >= quantity + 10 ? left - quantity : left - quantity + 91, quantity);
		RUN(q.line, d, o, n, i, quantity, quantity * price);
	}
	if (o > ORDERS) {
		RUN(q.forget_order, d, o - ORDERS);
		RUN(q.forget_lines, d, o - ORDERS);
	}
	sql("COMMIT");
}

NOINLINE void payment(void)
{
	static int64_t payments;
	int64_t d = random_to(DISTRICTS), c = random_to(CUSTOMERS), amount = random_to(5000);
	sql("BEGIN");
	RUN(q.pay_warehouse, amount);
	RUN(q.pay_district, d, amount);
	RUN(q.pay_customer, d, c, amount);
	RUN(q.history, payments++ % HISTORY, d, c, amount);
	sql("COMMIT");
}

NOINLINE void order_status(void)
{
	int64_t d = random_to(DISTRICTS), o = RUN(q.last_order, d, random_to(CUSTOMERS));
	RUN(q.lines, d, o);
}

NOINLINE void delivery(void)
{
	sql("BEGIN");
	for (int64_t d = 1; d <= DISTRICTS; d++) {
		int64_t o = RUN(q.oldest, d);
		if (o == 0)
			continue;
		RUN(q.deliver, d, o);
		RUN(q.delivered, d, o);
		RUN(q.credit, d, o, RUN(q.lines, d, o));
	}
	sql("COMMIT");
}

NOINLINE void stock_level(int64_t d, int64_t orders)
{
	int64_t next = RUN(q.next_order, d);
	RUN(q.low, d, next > orders ? next - orders : 1);
}

static long made;

/* transaction makes one of the five, in TPC-C's mix. */
NOINLINE void transaction(void)
{
	int64_t n = random_to(100);
	made++;
	if (n <= 45)
		new_order();
	else if (n <= 88)
		payment();
	else if (n <= 92)
		order_status();
	else if (n <= 96)
		delivery();
	else
		stock_level(random_to(DISTRICTS), 20);
}

#ifdef REFERENCE
void reference_open(void)
{
	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		die("open");
	load();
	for (int i = 0; i < 5000; i++)
		transaction();
}

/* reference_transaction makes the i-th transaction of a series. */
void reference_transaction(long i)
{
	if (i == 0)
		seed = SEED;
	transaction();
}
#else
static int64_t clock_ns(clockid_t c)
{
	struct timespec t;
	clock_gettime(c, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void (*reference_transaction)(long);
static int64_t other, others; /* what the reference took of the processor, ns, and the transactions it made */
static int often;             /* it makes one between all pieces of work, not only once in a step */

INLINE void refer(void)
{
	int64_t from = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	reference_transaction(others++);
	other += clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
}

INLINE void between(void)
{
	if (often)
		refer();
}

/* report is what an operator asks for now and then: long, and called rarely. */
NOINLINE void report(int rounds)
{
	while (rounds-- > 0)
		for (int64_t d = 1; d <= DISTRICTS; d++) {
			stock_level(d, ORDERS);
			between();
		}
}

/* digest keeps a CPU busy for some 20 ms. */
NOINLINE uint64_t digest(void)
{
	static uint8_t pages[1 << 20];
	uint64_t h = seed;
	for (int k = 0; k < 16; k++) {
		for (size_t i = 0; i < sizeof pages; i++)
			h = (h ^ pages[i]) * 0x100000001b3;
		between();
	}
	pages[h % sizeof pages]++;
	return h;
}

static void sleep_until(int64_t t)
{
	struct timespec at = {t / 1000000000, t % 1000000000};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* step is what the schedule of a shape has for its i-th 10 ms. */
static void step(const char *shape, long i)
{
	int n = PER_STEP;
	if (strcmp(shape, "bursts") == 0) {
		if (i % 50 == 10)
			report(1);
		if (i % 50 == 40)
			digest();
	} else if (strcmp(shape, "audits") == 0) {
		if (i % 50 == 10)
			report(5);
		if (i % 50 == 40)
			digest();
	} else if (strcmp(shape, "day") == 0) {
		n = 10;
	} else if (strcmp(shape, "night") == 0) {
		n = i % 10 == 0;
	} else {
		n = 1;
	}
	while (n-- > 0) {
		transaction();
		between();
	}
}

static void *reference(void *library, const char *name)
{
	void *f = library ? dlsym(library, name) : NULL;
	if (!f)
		die(dlerror());
	return f;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: tpcc THREADS REFERENCE\n");
		return 2;
	}
	void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
	reference_transaction = reference(library, "reference_transaction");
	((void (*)(void))reference(library, "reference_open"))();
	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		die("open");
	load();
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (int i = atoi(argv[1]); i > 0; i--) {
		pthread_t t;
		if (pthread_create(&t, &small, idle, NULL) != 0)
			die("pthread_create");
	}
	for (int i = 0; i < 5000; i++) /* the tables have the size that they keep */
		transaction();
	puts("ready");
	fflush(stdout);

	char shape[16];
	long ms;
	while (scanf("%15s %ld", shape, &ms) == 2) {
		const int64_t ten = 10000000; /* ns */
		int64_t began = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		other = others = made = 0;
		often = strcmp(shape, "bursts") == 0 || strcmp(shape, "audits") == 0;
		seed = SEED; /* the same transactions for each line */
		for (long i = 0; i < ms / 10; i++) {
			step(shape, i);
			if (strcmp(shape, "quiet") != 0)
				refer();
			sleep_until(began + (i + 1) * ten);
		}
		cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu - other;
		printf("%lld %ld %lld %lld\n", (long long)cpu, made, (long long)other, (long long)others);
		fflush(stdout);
	}
	return 0;
}
#endif
