// C++ exceptions: through many frames with destructors, rethrown, out of
// constructors, in threads, carried from one thread to another, coroutines.
//
// more: -O0 -pthread
// build: -O2 -pthread -std=c++20
// build: -O2 -pthread -std=c++20 -fcf-protection=full -s
// more: -O1 -pthread -static
// modules: libc.so.6
#include "suite.h"
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#if __cplusplus >= 202002L
#include <coroutine>
#endif

static __thread long destroyed;

extern "C" FN long work(long n) { CALLED(work); sink += n; return n == 0 ? 0 : kept(1 + work(n - 1)); }

struct guard {
	long n;
	explicit guard(long n) : n(n) {}
	FN ~guard() { destroyed += n + work(1); }
};

extern "C" FN long thrower(long n)
{
	CALLED(thrower);
	guard g(n);
	if (n == 0)
		throw std::runtime_error("thrown");
	return kept(thrower(n - 1) + work(1));
}

extern "C" FN long rethrower(long n)
{
	CALLED(rethrower);
	try {
		return n == 0 ? thrower(3) : rethrower(n - 1) + 1;
	} catch (const std::exception &e) {
		work(2);
		throw;
	}
}

/* The C frame between has no destructor to run, and no handler. */
extern "C" FN long between(long (*f)(long), long n) { CALLED(between); long r = f(n); return r + 1; }

struct member {
	std::string s;
	explicit member(const char *text) : s(text) {}
	FN ~member() { destroyed++; }
};
struct built {
	member a, b;
	FN explicit built(bool fail) try : a("a"), b("b") {
		if (fail)
			throw 42;
	} catch (int) {
		work(1);
		throw std::logic_error("constructor");
	}
};

extern "C" FN std::string *caught(long kind, long n)
{
	CALLED(caught);
	try {
		switch (kind) {
		case 0: thrower(n); break;
		case 1: rethrower(n); break;
		case 2: between(thrower, n); break;
		case 3: built b(true); break;
		}
		return new std::string("nothing");
	} catch (const std::exception &e) {
		work(1);
		return new std::string(e.what());
	}
}

extern "C" FN void nested_throw()
{
	CALLED(nested_throw);
	try {
		thrower(1);
	} catch (...) {
		std::throw_with_nested(std::runtime_error("outer"));
	}
}

struct shape {
	virtual ~shape() = default;
	virtual long area() const = 0;
};
struct square : shape {
	long side;
	explicit square(long s) : side(s) {}
	FN long area() const override { return work(side) * side; }
};
struct other { virtual ~other() = default; virtual long second() const = 0; };
struct both : square, other {
	explicit both(long s) : square(s) {}
	FN long second() const override { return area() + 1; } /* through a thunk */
};

#if __cplusplus >= 202002L
struct generator {
	struct promise_type {
		long value = 0;
		generator get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
		std::suspend_always initial_suspend() { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		std::suspend_always yield_value(long v) { value = v; return {}; }
		void return_void() {}
		void unhandled_exception() { throw; }
	};
	std::coroutine_handle<promise_type> h;
};
static FN generator counting(long n)
{
	for (long i = 0; i < n; i++)
		co_yield work(i);
	throw std::runtime_error("the generator ends");
}
#endif

static void act()
{
	destroyed = 0;
	for (long kind = 0; kind < 4; kind++) {
		std::unique_ptr<std::string> s(caught(kind, 20));
		say("kind %ld: %s, destroyed %ld\n", kind, s->c_str(), destroyed);
	}
	for (int i = 0; i < 10; i++)
		delete caught(0, 70);
	say("from depth 70: %ld\n", destroyed);
	try {
		nested_throw();
	} catch (const std::exception &e) {
		try {
			std::rethrow_if_nested(e);
		} catch (const std::exception &inner) {
			say("%s after %s\n", e.what(), inner.what());
		}
	}
	std::exception_ptr carried;
	std::vector<std::thread> threads;
	long each[4] = {};
	for (int i = 0; i < 4; i++)
		threads.emplace_back([i, &each, &carried] {
			for (int k = 0; k < 5; k++)
				try {
					rethrower(i + k);
				} catch (...) {
					each[i]++;
					if (i == 3)
						carried = std::current_exception();
				}
		});
	for (auto &t : threads)
		t.join();
	try {
		std::rethrow_exception(carried);
	} catch (const std::exception &e) {
		say("carried %s %ld %ld\n", e.what(), each[0], each[3]);
	}
	both b(5);
	const shape *s = &b;
	const other *o = &b;
	std::function<long(long)> f = [s](long n) { return s->area() + work(n); };
	say("virtual %ld %ld %ld\n", s->area(), o->second(), f(3));
#if __cplusplus >= 202002L
	auto g = counting(4);
	long sum = 0;
	try {
		for (;;) {
			g.h.resume();
			sum += g.h.promise().value;
		}
	} catch (const std::exception &e) {
		say("%s after %ld\n", e.what(), sum);
	}
	g.h.destroy();
#endif
}
