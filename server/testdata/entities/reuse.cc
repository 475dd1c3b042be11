// An account ends, and another one is made at its address. Each line of input is a
// step: one to begin, one to pay from the first account, one to replace it, one to
// pay from the second.
#include <cstdio>
#include <new>

struct Account {
	explicit Account(int n);
	virtual ~Account();
	virtual int pay(int n);
	int paid;
};

#define OUTLINE __attribute__((noinline))

OUTLINE Account::Account(int n) : paid(n) {}
OUTLINE Account::~Account() { paid = -1; }
OUTLINE int Account::pay(int n) { return paid += n; }

struct Ledger : Account {
	explicit Ledger(int n);
	~Ledger() override;
	int pay(int n) override;
};

OUTLINE Ledger::Ledger(int n) : Account(n) {}
OUTLINE Ledger::~Ledger() { paid = -2; }
OUTLINE int Ledger::pay(int n) { return paid += 2 * n; }

static bool step(const char *done)
{
	puts(done);
	fflush(stdout);
	return getchar() != EOF;
}

int main()
{
	alignas(16) static char place[64];
	if (!step("ready"))
		return 1;
	Account *a = new (place) Account(0);
	for (int i = 0; i < 3; i++)
		a->pay(1);
	if (!step("paid"))
		return 1;
	a->~Account();
	a = new (place) Ledger(0);
	a->pay(1);
	if (!step("replaced"))
		return 1;
	for (int i = 0; i < 5; i++)
		a->pay(1);
	step("paid again");
	a->~Account();
	return 0;
}
