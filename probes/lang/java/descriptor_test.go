package java

import "testing"

func TestParameters(t *testing.T) {
	for descriptor, want := range map[string]string{
		"()V":                             "",
		"(I)I":                            "int",
		"(ILjava/lang/String;[J[[LA$B;)V": "int,java.lang.String,long[],A$B[][]",
		"(BCDFIJSZ)Ljava/lang/Object;":    "byte,char,double,float,int,long,short,boolean",
	} {
		if got, ok := Parameters(descriptor); !ok || got != want {
			t.Errorf("%s: %q, %v; want %q", descriptor, got, ok, want)
		}
	}
	for _, none := range []string{"", "(", "I)V", "(Q)V", "([)V", "(Ljava/lang/String)V", "(L;)V"} {
		if got, ok := Parameters(none); ok {
			t.Errorf("%q has parameters %q", none, got)
		}
	}
}
