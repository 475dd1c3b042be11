package elf

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

func TestDemangled(t *testing.T) {
	for _, test := range []struct {
		symbol, name, class string
		lang                Lang
	}{
		{"_Z4freei", "free", "", CPP},
		{"_ZN2ns13free_functionEi", "ns::free_function", "ns", CPP},
		{"_ZNK2ns3BoxIiE3getEv", "ns::Box<int>::get", "ns::Box<int>", CPP},
		{"_ZN2ns3BoxIiEC2Ei", "ns::Box<int>::Box", "ns::Box<int>", CPP},
		{"_ZN2ns3BoxIiED1Ev", "ns::Box<int>::~Box", "ns::Box<int>", CPP},
		{"_ZN2ns3BoxIiEclEi", "ns::Box<int>::operator()", "ns::Box<int>", CPP},
		{"_ZN2nsltERKNS_3BoxIiEES3_", "ns::operator<", "ns", CPP},
		{"_ZN2ns3BoxIiE2asIlEET_S3_", "ns::Box<int>::as<long>", "ns::Box<int>", CPP},
		{"_ZN2ns4plusIiEET_S1_S1_", "ns::plus<int>", "ns", CPP},
		{"_ZN2ns6taggedB5cxx11Ev", "ns::tagged[abi:cxx11]", "ns", CPP},
		{"_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()", "main::{lambda(int)#1}", CPP},
		{"_ZN12_GLOBAL__N_14anonEi", "(anonymous namespace)::anon", "(anonymous namespace)", CPP},
		{"_ZN5Outer5Inner3runEi", "Outer::Inner::run", "Outer::Inner", CPP},
		{"_ZNSt6vectorIN2ns1AESaIS1_EE9push_backERKS1_", "std::vector<ns::A, std::allocator<ns::A> >::push_back", "std::vector<ns::A, std::allocator<ns::A> >", CPP},
		{"_ZN4node7WorkersIFvN2v85ValueEEE3runEv", "node::Workers<void (v8::Value)>::run", "node::Workers<void (v8::Value)>", CPP},
		{"_ZN2nsplERKNS_1AES2_.constprop.0", "ns::operator+", "ns", CPP},

		{"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad", "core::fmt::Formatter", Rust},
		{"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.1234", "core::fmt::Formatter::pad", "core::fmt::Formatter", Rust},
		{"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE", "<Test + 'static as foo::Bar<Test>>::bar", "<Test + 'static as foo::Bar<Test>>", Rust},
		{"_ZN4core3ptr46drop_in_place$LT$alloc..vec..Vec$LT$u8$GT$$GT$17h0123456789abcdefE", "core::ptr::drop_in_place<alloc::vec::Vec<u8>>", "core::ptr", Rust},
		{"_RNvCs6xxl1lAjzDf_1a4main", "a::main", "a", Rust},
		{"_RNvMNtCs6xxl1lAjzDf_1a5innerINtB2_5ThinghE3getB4_", "<a::inner::Thing<u8>>::get", "<a::inner::Thing<u8>>", Rust},
		{"_RNCNvNtCs6xxl1lAjzDf_1a5inner4free0B5_", "a::inner::free::{closure#0}", "a::inner::free", Rust},
	} {
		name, class, lang, ok := demangled(test.symbol)
		if !ok || name != test.name || class != test.class || lang != test.lang {
			t.Errorf("%s is %q, class %q, %v (%v); want %q, class %q, %v", test.symbol, name, class, lang, ok, test.name, test.class, test.lang)
		}
	}
	for _, plain := range []string{"main", "_start", "", "_Z", "_ZN", "_R", "_RNv", "__Z4freei", "_ZN" + strings.Repeat("1a", maxName)} {
		if name, _, _, ok := demangled(plain); ok {
			t.Errorf("%.40s was demangled to %.40q", plain, name)
		}
	}
}

func TestCPPProgram(t *testing.T) {
	path := testenv.CompileText(t, ".cc", `
#include <string>
namespace shop {
template <class T> struct Cart {
	T sum{};
	__attribute__((noinline)) void add(T x) { sum += x; asm volatile(""); }
	__attribute__((noinline)) void operator()(T x) { add(x); asm volatile(""); }
	__attribute__((noinline)) ~Cart() { asm volatile(""); }
};
__attribute__((noinline)) int total(const Cart<int> &c) { asm volatile(""); return c.sum; }
}
extern "C" __attribute__((noinline)) int plain(int x) { asm volatile(""); return x; }
int main(int argc, char **) {
	shop::Cart<int> c;
	auto twice = [&](int x) __attribute__((noinline)) { c.add(x); c.add(x); };
	twice(argc);
	c(1);
	if (argc > 100) throw std::string("many");
	return plain(shop::total(c));
}`, "-O1")
	m := openModule(t, path)
	for _, want := range []struct {
		name, class string
		lang        Lang
	}{
		{"shop::Cart<int>::add", "shop::Cart<int>", CPP},
		{"shop::Cart<int>::operator()", "shop::Cart<int>", CPP},
		{"shop::Cart<int>::~Cart", "shop::Cart<int>", CPP},
		{"main::{lambda(int)#1}::operator()", "main::{lambda(int)#1}", CPP},
		{"shop::total", "shop", CPP},
		{"plain", "", C},
		{"main", "", C},
	} {
		i := only(t, m, want.name)
		f := m.Function(i)
		if f.Class != want.class || f.Lang != want.lang {
			t.Errorf("%s: class %q, %v", f.Name, f.Class, f.Lang)
		}
		if !m.Unwinds() {
			t.Error("a C++ program does not unwind stacks")
		}
		if only(t, m, f.Mangled) != i {
			t.Errorf("%s is not found by %s", f.Name, f.Mangled)
		}
	}
	// The complete and the base destructor are one function here.
	destructor := m.Function(only(t, m, "shop::Cart<int>::~Cart"))
	if !slices.ContainsFunc(destructor.Aliases, func(a string) bool { return strings.HasSuffix(a, "Ev") }) {
		t.Errorf("aliases of the destructor: %q", destructor.Aliases)
	}
}

// c++filt demangles independently; without parameters a name must be a part
// of what it prints.
func TestNamesAgreeWithCxxfilt(t *testing.T) {
	testenv.NeedProgram(t, "c++filt")
	out := testenv.Output(t, "readelf", "-sW", "--dyn-syms", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6")
	var symbols []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) >= 8 && f[3] == "FUNC" && f[6] != "UND" {
			name, _, _ := strings.Cut(f[7], "@")
			symbols = append(symbols, name)
		}
	}
	filter := exec.Command("c++filt")
	filter.Stdin = strings.NewReader(strings.Join(symbols, "\n"))
	lines, err := filter.Output()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for i, want := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
		name, class, _, ok := demangled(symbols[i])
		if !ok {
			continue
		}
		if strings.Contains(want, "std::basic_") {
			continue // c++filt writes out what we call std::string and the like
		}
		checked++
		if !strings.Contains(want, name) || class != "" && !strings.Contains(name, class+"::") {
			t.Errorf("%s: %q, class %q; c++filt prints %q", symbols[i], name, class, want)
		}
	}
	if checked < 1000 {
		t.Errorf("only %d names checked", checked)
	}
}

func FuzzDemangled(f *testing.F) {
	f.Add("_ZNSt6vectorIN2ns1AESaIS1_EE9push_backERKS1_")
	f.Add("_RNvMNtCs6xxl1lAjzDf_1a5innerINtB2_5ThinghE3getB4_")
	f.Add("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE")
	f.Fuzz(func(t *testing.T, symbol string) {
		name, class, _, ok := demangled(symbol)
		if ok && len(class) > len(name)+2 {
			t.Errorf("%q: class %q is longer than name %q", symbol, class, name)
		}
		goClass(symbol, func(string) bool { return false })
		goDisplay(symbol)
	})
}

func TestGoClass(t *testing.T) {
	functions := map[string]bool{"main.outer": true, "main.T.method": true}
	for name, want := range map[string]string{
		"main.main":                          "",
		"main.(*T).M":                        "main.T",
		"main.T.M":                           "main.T",
		"main.T.M-fm":                        "main.T",
		"main.(*T).M-fm":                     "main.T",
		"main.(*T).M.func1.2":                "main.T",
		"main.(*T).M.deferwrap1":             "main.T",
		"main.f.func1":                       "",
		"main.f.gowrap2":                     "",
		"main.f.func1-range1":                "",
		"main.glob..func1":                   "",
		"main.init.0":                        "",
		"main.init.func1":                    "",
		"main.init.0.func1":                  "",
		"main.T.method.func1":                "main.T",
		"main.outer.inlined.func1":           "",
		"main.F[...]":                        "",
		"main.F[...].func1":                  "",
		"main.(*List[...]).Push":             "main.List[...]",
		"main.List[go.shape.int].Len":        "main.List[go.shape.int]",
		"main.(*Map[string,a.b/c.D]).Get":    "main.Map[string,a.b/c.D]",
		"gopkg.in/yaml%2ev3.(*Decoder).Read": "gopkg.in/yaml%2ev3.Decoder",
		"net/http.(*conn).serve":             "net/http.conn",
		"net/http.HandlerFunc.ServeHTTP":     "net/http.HandlerFunc",
		"golang.org/x/net/http2.(*Framer).F": "golang.org/x/net/http2.Framer",
		"type:.eq.main.point":                "",
		"callbackasm":                        "",
		"":                                   "",
		".":                                  "",
		"a.(":                                "a.",
	} {
		if got := goClass(name, func(s string) bool { return functions[s] }); got != want {
			t.Errorf("goClass(%q) = %q, want %q", name, got, want)
		}
	}
}
