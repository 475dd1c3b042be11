package codesite

import (
	"encoding/hex"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

func code(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMethod(t *testing.T) {
	for _, test := range []struct{ code, syntax, method, refused string }{
		{"55", "push rbp", Emulated, ""},
		{"41 57", "push r15", Emulated, ""},
		{"66 55", "push bp", Stepped, ""},
		{"6a 01", "push 0x1", Stepped, ""},
		{"ff 75 08", "push qword ptr [rbp+0x8]", Stepped, ""},
		{"e8 00 00 00 00", "call 0x1005", Emulated, ""},
		{"e9 00 00 00 00", "jmp 0x1005", Emulated, ""},
		{"eb 10", "jmp 0x1012", Emulated, ""},
		{"76 10", "jbe 0x1012", Emulated, ""},
		{"0f 86 00 01 00 00", "jbe 0x1106", Emulated, ""},
		{"e3 10", "jrcxz 0x1012", Stepped, ""},
		{"ff e0", "jmp rax", Stepped, ""},
		{"90", "nop", Emulated, ""},
		{"66 90", "data16 nop", Emulated, ""},
		{"f3 90", "pause", Stepped, ""},
		{"0f 1f 44 00 00", "nop dword ptr [rax+rax], eax", Nop, ""},
		{"0f 1f 40 00", "nop dword ptr [rax], eax", Stepped, ""},
		{"f3 0f 1e fa", "endbr64", Stepped, ""},
		{"48 83 ec 08", "sub rsp, 0x8", Stepped, ""},
		{"c3", "ret", Stepped, ""},
		{"31 c0", "xor eax, eax", Stepped, ""},
		{"64 48 8b 04 25 28 00 00 00", "", Stepped, ""},
		{"c5 f8 58 c0", "(avx c5 f8 58 c0)", Stepped, ""},
		{"62 f1 7c 48 58 c0", "(avx 62 f1 7c 48 58 c0)", Stepped, ""},

		{"f0 0f c1 07", "", "", "lock prefix"},
		{"66 f0 0f c1 07", "", "", "lock prefix"},
		{"2e 0f 1f 44 00 00", "", "", "segment prefix (2e)"},
		{"3e ff e0", "", "", "segment prefix (3e)"},
		{"26 8b 07", "", "", "segment prefix (26)"},
		{"36 8b 07", "", "", "segment prefix (36)"},
		{"66 e9 00 00 00 00", "", "", "operand size prefix"},
		{"cc", "", "", "refuses to step"},
		{"f4", "", "", "refuses to step"},
		{"cd 80", "", "", "refuses to step"},
		{"0f 05", "syscall", "", "refuses to step"},
		{"0f 0b", "ud2", "", "refuses to step"},
		{"9c", "", "", "pushes the flags"},
		{"8e d0", "", "", "stack segment"},
		{"41 90", "", "", "treats as a nop"},
		{"c5 f8 77", "", "", "treats as a jump"},          // vzeroupper: ja
		{"c5 f9 eb c1", "", "", "treats as a jump"},       // vpor: jmp
		{"c5 f9 6f c0", "", "", "refuses to step"},        // vmovdqa: outs
		{"62 f1 7d 48 74 c8", "", "", "treats as a jump"}, // vpcmpeqb: je
	} {
		b := code(t, test.code)
		in, err := decode(append(b, 0, 0, 0, 0))
		if err != nil || in.Len != len(b) {
			t.Errorf("%s: decoded to %d bytes (%v)", test.code, in.Len, err)
			continue
		}
		if got := in.syntax(0x1000); test.syntax != "" && got != test.syntax {
			t.Errorf("%s is %q, want %q", test.code, got, test.syntax)
		}
		got, err := method(b, len(b))
		switch {
		case test.refused == "" && (err != nil || got != test.method):
			t.Errorf("%s (%s): %q %v, want %q", test.code, in.syntax(0x1000), got, err, test.method)
		case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
			t.Errorf("%s: %q %v, want a refusal with %q", test.code, got, err, test.refused)
		}
	}
}

// objdump decodes independently: every instruction of a program, and every
// AVX instruction of the C library, must have the same length.
func TestLengthsAgreeWithObjdump(t *testing.T) {
	testenv.Long(t)
	for _, path := range []string{testenv.NeedProgram(t, "redis-server"), "/lib/x86_64-linux-gnu/libc.so.6"} {
		checked, vector := 0, 0
		for line := range strings.Lines(testenv.Output(t, "objdump", "-d", "-w", "-Mintel", path)) {
			f := strings.SplitN(line, "\t", 3)
			if len(f) < 3 || strings.Contains(f[2], "(bad)") || strings.Contains(f[2], "pkru") {
				continue
			}
			b := code(t, strings.TrimSpace(f[1]))
			in, err := decode(append(b[:len(b):len(b)], make([]byte, 8)...))
			if err != nil || in.Len != len(b) {
				t.Fatalf("%s: %s has %d bytes for us (%v)", path, strings.TrimSpace(line), in.Len, err)
			}
			checked++
			if strings.HasPrefix(in.text, "(avx") {
				vector++
			}
		}
		t.Logf("%s: %d instructions, %d of them AVX", path, checked, vector)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc0})
	f.Add([]byte{0xc4, 0xe3, 0x79, 0x0f})
	f.Add([]byte{0xf0, 0x2e, 0x66, 0x67})
	f.Fuzz(func(t *testing.T, code []byte) {
		in, err := decode(code)
		if err != nil {
			return
		}
		if in.Len <= 0 || in.Len > len(code) {
			t.Fatalf("% x has %d bytes", code, in.Len)
		}
		in.syntax(0x1000)
		method(code, in.Len)
		candidates(code, 0, Need{}, argumentsC, false)
		isEntered(code, 0, 4)
	})
}
