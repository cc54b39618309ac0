package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// FuzzOperations hands any body, and any path and query members, to every operation of the table, by a key that may do
// everything. An answer is whole JSON; an error is one of the registry and not "internal"; nothing is permitted that
// the chain does not permit; and whoever has killed everything is still let in to undo nothing.
func FuzzOperations(f *testing.F) {
	seeds := []string{`{}`, `{"agent_id":"bot","tool_id":"permit","args":{"n":1e400}}`,
		`{"agent_id":"bot","tool_id":"defer","call_id":"x-resume","defer_token":"dfr_x"}`,
		`{"defer_token":"dfr_x","approved":true,"modified_args":{"a":[1]},"grant":{"ttl_seconds":1,"max_uses":2}}`,
		`{"agent_id":"*","tool_pattern":"**","ttl_seconds":60,"args_match":"1"}`,
		`{"grant_id":"stg_x"}`, `{"scope":"tool","target":"p*","undo":true}`,
		`{"agent_id":"a","tool":"x","operation":"y","params":{"_k":null},"context":{"u":"é😀"}}`,
		`{"token":"t","approve":false,"reason":"no"}`, `{"success":true,"result":[{"a":1.0}],"error":"e"}`,
		`{"policy":"rules: []","action":{"agent_id":"a","tool":"x"}}`,
		`{"from_seq":1,"types":["kill"],"heartbeat_seconds":1}`, `{"events":["decision","kill"],"agent_id":"bot"}`,
		`{"tool_id":"t","output":"text","stream_id":"s","offset":3}`,
		`{"tool_id":"t","outputs":[{"output":"a"},{"output_json":{"b":[1.50,null]},"tool_id":"u"}]}`, `[1]`, `null`}
	for i := range ops.Table {
		for _, s := range seeds {
			f.Add(uint8(i), s, "id", "act_01")
		}
	}
	b := newBench(f, nil)
	k := b.keyWith("all", nil, "authorize", "scan", "approve", "grants", "kill", "audit")
	f.Fuzz(func(t *testing.T, row uint8, body, name, value string) {
		op := &ops.Table[int(row)%len(ops.Table)]
		var doc exact.Doc
		if doc.Parse(body, exact.DefaultLimits) != nil {
			return // the transports refuse it
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		r := &ops.Request{Ctx: ctx, Key: k.Key, Who: store.Who{Principal: k.Key.ID, Method: "api_key", Surface: "http"},
			Start: b.now(), Body: doc.Root(), Raw: body, Params: []wire.Param{{Name: name, Value: value}}, Stopping: stopped}
		if op.Stream.Open != nil {
			st, err := b.svc.Open(op, r)
			check(t, op, err)
			if err == nil {
				st.Close()
			}
			return
		}
		resp, err := b.svc.Run(op, r)
		var replay *ops.Replay
		if errors.As(err, &replay) {
			resp, err = replay.Response(), nil
		}
		check(t, op, err)
		if err != nil {
			return
		}
		text := resp.AppendJSON(nil)
		if !json.Valid(text) {
			t.Fatalf("%s %s: %s", op.Name, body, text)
		}
		if tool := doc.Root().Get("tool_id").Str(); op.Decides && member(string(text), "effect") == "PERMIT" &&
			!slices.Contains([]string{"permit", "PERMIT"}, first(tool)) && member(string(text), "reason_code") == "TEST" {
			t.Fatalf("%s %s: %s", op.Name, body, text)
		}
	})
}

// stopped lets long polls answer at once.
var stopped = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func first(tool string) string {
	for i := range len(tool) {
		if tool[i] == '/' {
			return tool[:i]
		}
	}
	return tool
}

func check(t *testing.T, op *ops.Op, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var e *sdk.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: an error without a code: %v", op.Name, err)
	}
	if _, known := wire.Statuses[e.Code]; !known || e.Code == sdk.CodeInternal {
		t.Fatalf("%s: %v", op.Name, err)
	}
}
