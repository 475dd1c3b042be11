package web

import (
	"encoding/json"
	"fmt"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

func TestValuesAsThePageGetsThem(t *testing.T) {
	list := func(vs ...types.Value) types.Value { return types.ListOf(vs) }
	frame := func(name string) types.Value { return list(types.Str(name), types.Str("libc.so.6")) }
	cols := []wire.Column{{Name: "b", Type: types.Boolean}, {Name: "i", Type: types.Bigint}, {Name: "f", Type: types.Double}, {Name: "s", Type: types.Varchar},
		{Name: "t", Type: types.Timestamp}, {Name: "d", Type: types.Duration}, {Name: "stack", Type: types.List}, {Name: "h", Type: types.List}, {Name: "l", Type: types.List}}
	kinds := make([]types.Type, len(cols))
	for i, c := range cols {
		kinds[i] = c.Type
	}
	b := batch.New(kinds)
	hist := list(list(types.Dur(1), types.NullOf(types.Duration), types.Int(7)))
	b.AppendRow(types.Bool(true), types.Int(1<<60), types.Float(1.5), types.Str("<img src=x onerror=alert(1)>"), types.Time(1005), types.Dur(3), list(frame("leaf"), frame("root")), hist, list(types.Int(1), types.Str("x")))
	b.AppendRow(types.NullOf(types.Boolean), types.Int(-5), types.NullOf(types.Double), types.Str("<img src=x onerror=alert(1)>"), types.Time(999), types.Dur(4), list(frame("leaf"), frame("root")), types.NullOf(types.List), list())
	e := newEncoder(cols, 1000)
	words, cells := e.encode(b, &pictures{})
	got, err := json.Marshal(map[string]any{"words": words, "cells": cells})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"cells":[[true,null],["1152921504606846976",-5],[1.5,null],[0,0],[5,-1],[3,4],[0,0],[{"h":[[1,null,7]],"type":"DURATION"},null],["[1,\"x\"]","[]"]],` +
		`"words":[{"c":3,"first":0,"w":["\u003cimg src=x onerror=alert(1)\u003e"]},{"c":6,"first":0,"w":[["root","leaf"]]}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDictionariesBeginAgain(t *testing.T) {
	e := newEncoder([]wire.Column{{Name: "s", Type: types.Varchar}}, 0)
	e.dicts[0] = map[string]int{}
	for i := range mostWords {
		e.dicts[0][fmt.Sprint(i)] = i
	}
	b := batch.New([]types.Type{types.Varchar})
	b.AppendRow(types.Str("new"))
	words, cells := e.encode(b, &pictures{})
	if len(words) != 1 || words[0].First != 0 || cells[0][0] != 0 {
		t.Errorf("words %v, cells %v", words, cells)
	}
}
