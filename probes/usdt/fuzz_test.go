package usdt

import (
	"encoding/binary"
	"os"
	"runtime"
	"testing"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// note returns a note with a probe.
func note(addr, semaphore uint64, texts string) (b []byte) {
	le := binary.LittleEndian
	desc := le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, addr), 0), semaphore)
	desc = append(desc, texts...)
	b = le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 8), uint32(len(desc))), sdtNote)
	b = append(append(b, "stapsdt\x00"...), desc...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// FuzzNotes lets the notes of a program be any bytes.
func FuzzNotes(f *testing.F) {
	file, err := os.Open(testenv.CompileText(f, ".c", "void _start(void) { for (;;) __asm__(\"nop\"); } int counter[64] = {1};", "-nostdlib", "-static-pie"))
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	im, err := elf.OpenImage(file)
	if err != nil {
		f.Fatal(err)
	}
	code := im.Exec[0].Start
	if list := probesIn(im, note(code, 0, "app\x00start\x00-4@%edi 8@-16(%rbp)\x00")); len(list) != 1 || list[0].String() != "usdt:app:start" || len(list[0].Args) != 2 {
		f.Fatalf("the seed has the probes %+v", list)
	}
	f.Add(note(code, 0, "app\x00start\x00-4@%edi 8@-16(%rbp)\x00"))
	f.Add(append(note(code+1, 1, "a\x00b\x00\x00"), note(^uint64(0), ^uint64(0), "a\x00b\x008@counter+4\x00")...))
	f.Add([]byte{8, 0, 0, 0, 255, 255, 255, 255, 3, 0, 0, 0})
	f.Fuzz(func(t *testing.T, notes []byte) {
		if len(notes) > 1<<16 {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		list := probesIn(im, notes)
		locateOperands(im, list, file)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20+1000*uint64(len(notes)) {
			t.Errorf("notes of %d bytes: %d were allocated", len(notes), n)
		}
		for _, p := range list {
			if p.Provider == "" || p.Name == "" || p.Refused == nil && len(p.Site.Bytes) == 0 {
				t.Errorf("%+v", p)
			}
			_ = p.String() + p.Signature()
		}
	})
}
