package remote_test

import (
	"context"
	"io"
	"slices"
	"testing"

	"endoscope/client/remote"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// losing is an engine that records the statements of its sessions. While cut is set,
// a session is lost at every statement; connecting resets it.
type losing struct {
	wire.Engine
	cut      bool
	executed []string // in the current session
}

func (e *losing) NewSession(context.Context, wire.Options) (wire.Session, error) {
	e.cut, e.executed = false, nil
	return losingSession{e: e}, nil
}

type losingSession struct {
	wire.Session
	e *losing
}

func (s losingSession) Execute(_ context.Context, text string, _ ...types.Value) (wire.Result, error) {
	if s.e.cut {
		return nil, &remote.LostError{Addr: "nowhere", Why: "cut"}
	}
	s.e.executed = append(s.e.executed, text)
	return noRows{}, nil
}
func (losingSession) Close() error { return nil }

type noRows struct{ wire.Result }

func (noRows) Next(context.Context) (wire.Event, error) { return wire.Event{}, io.EOF }
func (noRows) Close() error                             { return nil }

// A new connection's session is given the settings of the previous one, each once and
// in order. They are identified by what they set, not by their text.
func TestReconnectingReplaysSettings(t *testing.T) {
	e := &losing{}
	x, err := remote.Reconnecting(e).NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for _, statement := range []string{
		"USE NONE",
		"set lateness = 1s",
		"-- my program\nUSE 'mine'",
		"SET/**/Lateness/**/= /* more */ 2s",
		"SUSPEND THREAD 'a'",
		"/**/suspend",
		"resume /* again */ thread/**/'a' -- it",
		"CREATE STREAM v AS SELECT * FROM cpu_usage",
		"/* SET lateness = 9s */ SHOW STREAMS",
		"no statement at all",
	} {
		if _, err := x.Execute(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	e.cut = true
	if _, err := x.Execute(t.Context(), "SHOW SETTINGS"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"-- my program\nUSE 'mine'",
		"SET/**/Lateness/**/= /* more */ 2s",
		"/**/suspend",
		"resume /* again */ thread/**/'a' -- it",
		"SHOW SETTINGS",
	}
	if !slices.Equal(e.executed, want) {
		t.Errorf("the new session executed %q, want %q", e.executed, want)
	}
}

// A statement that was lost with its connection is executed again only if it changes
// nothing.
func TestReconnectingRepeatsOnlyWhatReads(t *testing.T) {
	e := &losing{}
	x, err := remote.Reconnecting(e).NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for statement, again := range map[string]bool{
		"-- hi\nSELECT * FROM cpu_usage": true,
		"(SELECT":                        false,
		"/**/with/**/a AS (SELECT * FROM cpu_usage) SELECT * FROM a": true,
		"explain/**/analyze SELECT * FROM cpu_usage":                 true,
		"show/**/streams":                        true,
		"-- hi\nSET lateness = 1s":               true,
		"use/**/none":                            true,
		"/* SELECT */ DROP STREAM v":             false,
		"STOP 1":                                 false,
		"SELECT * FROM cpu_usage; DROP STREAM v": false,
		"INSERT INTO file('a.csv') SELECT * FROM cpu_usage":                              false,
		"CREATE TRIGGER t ON cpu_usage WHEN total > 1 BEGIN SELECT * FROM cpu_usage END": false,
	} {
		e.cut = true
		if _, err := x.Execute(t.Context(), statement); (err == nil) != again {
			t.Errorf("%q: %v", statement, err)
		}
		if done := slices.Contains(e.executed, statement) && !e.cut; done != again {
			t.Errorf("%q: executed again is %t", statement, done)
		}
	}
}
