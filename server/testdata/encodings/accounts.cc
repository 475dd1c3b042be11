// Objects of some classes, each used by a protocol, some at addresses that were
// other objects'. What is called on each it logs, a line for an object in the order
// of their births: its class, then a letter for each call, and "<" for each return.
// With "wrong" something is paid in when an account is closed, once.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#define METHOD __attribute__((noinline, noclone))
static std::vector<std::string> told;
static std::map<const void *, size_t> alive;

struct Note {
	const void *self;
	Note(const void *self, char c) : self(self) { told[alive[self]] += c; }
	~Note() { told[alive[self]] += '<'; }
};

static unsigned long seed = 88172645463325252;
static unsigned random_(unsigned below)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return seed % below;
}

struct Account {
	METHOD virtual void open(long n) { Note note(this, 'o'); balance = n; }
	METHOD virtual bool withdraw(long n) { Note note(this, 'w'); check(); return n <= balance && (balance -= n, true); }
	METHOD void deposit(long n) { Note note(this, 'd'); check(); balance += n; }
	METHOD void check() { Note note(this, 'c'); if (balance < 0) abort(); }
	METHOD virtual void close() { Note note(this, 'x'); balance = 0; }
	virtual ~Account() {}
	long balance = 0;
};
struct Savings : Account {
	METHOD bool withdraw(long n) override { Note note(this, 'W'); return n < 50 && Account::withdraw(n); }
};
struct Audited : Savings {
	METHOD void audit() { Note note(this, 'a'); check(); }
	METHOD void close() override { Note note(this, 'X'); audit(); Account::close(); }
};

static void born(const void *self, const char *name) { alive[self] = told.size(); told.push_back(std::string(name) + " "); }

int main(int argc, char **argv)
{
	for (long i = atol(argv[1]); i > 0; i--) {
		std::vector<Account *> all;
		for (int k = 0; k < 3; k++) {
			Account *a = k == 0 ? new Account : k == 1 ? new Savings : new Audited;
			born(a, k == 0 ? "Account" : k == 1 ? "Savings" : "Audited");
			a->open(100);
			all.push_back(a);
		}
		for (int n = random_(20); n > 0; n--) {
			Account *a = all[random_(3)];
			if (random_(2)) a->deposit(random_(100)); else a->withdraw(random_(100));
			if (auto *u = dynamic_cast<Audited *>(a)) if (random_(4) == 0) u->audit();
		}
		for (Account *a : all) {
			a->close();
			if (argc > 3 && i == 7 && a == all[1])
				a->deposit(1);
			delete a;
		}
	}
	FILE *f = fopen(argv[2], "w");
	for (auto &line : told) fprintf(f, "%s\n", line.c_str());
	return fclose(f);
}
