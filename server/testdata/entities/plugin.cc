// A library with a class of its own, whose object calls while the library is loaded.
struct Base {
	virtual ~Base() {}
	virtual int n() { return 1; }
};

struct Plugged : Base {
	int n() override { return 2; }
};

static Plugged plugged;
extern "C" int ask() { return plugged.n(); }
