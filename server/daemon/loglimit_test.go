package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"endoscope/probes/testenv"
)

// Of a flood, some lines are passed, and the others are counted; that of one user or
// address does not hide what others cause.
func TestLogIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &testenv.Buffer{}
		h, flush := limit(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "time" {
				return slog.Attr{}
			}
			return a
		}}), "")
		log := slog.New(h)
		alice := log.With("user", "alice", "peer", "192.0.2.1:1")
		for i := range 1000 {
			log.Warn("a call was refused", "peer", fmt.Sprintf("192.0.2.7:%d", 1000+i))
			alice.Info("refused", "n", i)
		}
		log.Warn("a call was refused", "peer", "192.0.2.8:1")
		alice.Info("something else")
		log.With("user", "bob").Info("refused")
		count := func(text string) int { return strings.Count(b.String(), text) }
		for text, want := range map[string]int{"peer=192.0.2.7:": 10, "msg=refused user=alice": 10, "192.0.2.8": 1, "something else": 1, "msg=refused user=bob": 1, "left out": 0} {
			if got := count(text); got != want {
				t.Errorf("%d lines with %s, want %d", got, text, want)
			}
		}
		// The count is written although no line follows.
		time.Sleep(logPeriod + time.Second)
		synctest.Wait()
		for _, line := range []string{
			`level=WARN msg="990 similar messages left out" message="a call was refused" from=192.0.2.7`,
			`level=INFO msg="990 similar messages left out" user=alice peer=192.0.2.1:1 message=refused from=alice`,
		} {
			if count(line+"\n") != 1 {
				t.Errorf("no line %s in\n%s", line, b.String())
			}
		}
		b.Reset()
		for i := range 11 {
			alice.Info("refused", "n", i)
		}
		if got := count("msg=refused"); got != 10 {
			t.Errorf("%d lines in the next period", got)
		}
		// Many addresses do not take more memory, nor more lines.
		for i := range 5000 {
			log.Warn("a call was refused", "peer", fmt.Sprintf("[2001:db8::%x]:1", i))
		}
		if got := count("a call was refused"); got > logCauses+logLines {
			t.Errorf("%d lines of 5000 addresses", got)
		}
		flush()
		if count(`msg="1 similar message left out" user=alice`) != 1 {
			t.Errorf("not counted at the end:\n%s", b.String())
		}
	})
}

// Only one message of the audit log is limited.
func TestAuditOfExecutedStatementsIsNotLimited(t *testing.T) {
	var b bytes.Buffer
	h, flush := limit(slog.NewTextHandler(&b, nil), "refused")
	log := slog.New(h).With("user", "alice")
	for range 100 {
		log.Info("executed")
		log.Info("refused")
	}
	flush()
	if n, m, left := strings.Count(b.String(), "msg=executed"), strings.Count(b.String(), "msg=refused"), strings.Count(b.String(), `msg="90 similar messages left out"`); n != 100 || m != 10 || left != 1 {
		t.Errorf("%d executed, %d refused, %d counts", n, m, left)
	}
}
