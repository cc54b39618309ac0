package host

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/exact"
)

func decision(effect, code, codeLen, reason, reasonLen, ttl int) []byte {
	return host("decide", i32(effect), i32(code), i32(codeLen), i32(reason), i32(reasonLen), i32(ttl))
}

func checkWith(t *testing.T, body []byte) (sdk.Verdict, *Module, error) {
	t.Helper()
	m := load(t, guest{check: body}, nil)
	v, err := m.Check(context.Background(), &chain.Call{AgentID: "a"})
	return v, m, err
}

func TestCheckMapsEffects(t *testing.T) {
	for effect, want := range map[int]sdk.Effect{abi.EffectPermit: sdk.Permit, abi.EffectDeny: sdk.Deny,
		abi.EffectDefer: sdk.Defer} {
		v, _, err := checkWith(t, cat(decision(effect, kindAt, kindLen, textAt, 11, 1500)))
		if w := (sdk.Verdict{Effect: want, Code: "TEST_KIND", Reason: "replacement", TTL: 1500 * time.Millisecond}); err !=
			nil || !reflect.DeepEqual(v, w) {
			t.Errorf("effect %d: got %+v, %v, want %+v", effect, v, err, w)
		}
	}
	v, _, err := checkWith(t, decision(abi.EffectAbstain, 0, 0, 0, 0, 0))
	if err != nil || !reflect.DeepEqual(v, sdk.Verdict{}) {
		t.Errorf("abstain: got %+v, %v", v, err)
	}
}

func TestInvalidChecksFail(t *testing.T) {
	permit := decision(abi.EffectPermit, kindAt, kindLen, 0, 0, 0)
	for _, c := range []struct {
		name string
		body []byte
		want error
	}{
		{"no decision", i32(0), ErrNoDecision},
		{"two decisions", cat(permit, drop, permit), ErrDecideTwice},
		{"a permit, then a status", cat(permit, drop, i32(3)), ErrStatus},
		{"a permit, then a trap", cat(permit, drop, unreachable), ErrTrap},
		{"a permit, then an exit", cat(permit, drop, host("proc_exit", i32(0)), i32(0)), ErrExit},
		{"a permit, then an error text", cat(permit, drop, host("put", i32(0), i32(textAt), i32(11)), drop, i32(0)), ErrStatus},
		{"effect", decision(4, kindAt, kindLen, 0, 0, 0), ErrDecision},
		{"negative effect", decision(-1, kindAt, kindLen, 0, 0, 0), ErrDecision},
		{"no code", decision(1, kindAt, 0, 0, 0, 0), ErrDecision},
		{"code", decision(1, textAt, 11, 0, 0, 0), ErrDecision},
		{"long code", decision(1, kindAt, 2000, 0, 0, 0), ErrDecision},
		{"code outside memory", decision(1, -1, 9, 0, 0, 0), ErrPointer},
		{"code with abstain", decision(0, kindAt, kindLen, 0, 0, 0), ErrDecision},
		{"reason outside memory", decision(1, kindAt, kindLen, -1, 2, 0), ErrPointer},
		{"long reason", decision(1, kindAt, kindLen, zerosAt, maxReason+1, 0), ErrDecision},
		{"reason not UTF-8", decision(1, kindAt, kindLen, badUTF8At, 2, 0), ErrDecision},
		{"negative ttl", decision(1, kindAt, kindLen, 0, 0, -1), ErrDecision},
		{"emit in a check", soundEmission.code(), ErrMisplaced},
		{"put state in a check", host("put", i32(2), i32(0), i32(1)), ErrMisplaced},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, m, err := checkWith(t, c.body)
			wantErr(t, err, c.want)
			if !reflect.DeepEqual(v, sdk.Verdict{}) {
				t.Errorf("a verdict beside an error: %+v", v)
			}
			if s := settled(m); s.Errors != 1 || s.Discarded != 1 || s.Live != 1 {
				t.Errorf("the instance was kept: %+v", s)
			}
		})
	}
}

// TestAFailedCheckKeepsItsNo: a module that decides DENY or DEFER in a way that breaks a rule, or fails afterwards, has
// not let the call through. In the host's process and in a worker.
func TestAFailedCheckKeepsItsNo(t *testing.T) {
	deny := decision(abi.EffectDeny, kindAt, kindLen, 0, 0, 0)
	for _, c := range []struct {
		name string
		body []byte
		want sdk.Effect
	}{
		{"deny with a long reason", decision(abi.EffectDeny, kindAt, kindLen, zerosAt, maxReason+1, 0), sdk.Deny},
		{"deny without a code", decision(abi.EffectDeny, kindAt, 0, 0, 0, 0), sdk.Deny},
		{"deny with a reason outside memory", decision(abi.EffectDeny, kindAt, kindLen, -1, 2, 0), sdk.Deny},
		{"deny, then a trap", cat(deny, drop, unreachable), sdk.Deny},
		{"deny, then a permit", cat(deny, drop, decision(abi.EffectPermit, kindAt, kindLen, 0, 0, 0)), sdk.Deny},
		{"permit, then a deny", cat(decision(abi.EffectPermit, kindAt, kindLen, 0, 0, 0), drop, deny), sdk.Deny},
		{"defer with a negative ttl", decision(abi.EffectDefer, kindAt, kindLen, 0, 0, -1), sdk.Defer},
		{"permit with a long reason", decision(abi.EffectPermit, kindAt, kindLen, zerosAt, maxReason+1, 0), sdk.Abstain},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, _, err := checkWith(t, c.body)
			if err == nil || !reflect.DeepEqual(v, sdk.Verdict{Effect: c.want}) {
				t.Errorf("got %+v, %v, want %v and nothing else", v, err, c.want)
			}
			w := spawn(t, guest{check: c.body}, nil, tuning(nil))
			v, err = w.Check(context.Background(), &chain.Call{AgentID: "a"})
			if err == nil || !reflect.DeepEqual(v, sdk.Verdict{Effect: c.want}) {
				t.Errorf("in a worker: got %+v, %v, want %v and nothing else", v, err, c.want)
			}
		})
	}
}

func TestCheckDocument(t *testing.T) {
	var doc exact.Doc
	if err := doc.Parse(`{"z":1.50,"a":"é\n"}`, exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		call chain.Call
		want string
	}{
		{chain.Call{AgentID: `a"b`, SessionID: "s", ToolID: "t/op", Operation: "op", CallID: "c", Args: doc.Root(), KeyName: "k"},
			`{"agent_id":"a\"b","session_id":"s","tool_id":"t/op","operation":"op","call_id":"c","args":{"a":"é\n","z":1.5}}`},
		{chain.Call{Context: doc.Root()},
			`{"agent_id":"","session_id":"","tool_id":"","operation":"","call_id":"","context":{"a":"é\n","z":1.5}}`},
	} {
		if got := string(callDocument(&c.call)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		// The guest gives its buffer back as the error text.
		m := load(t, guest{check: cat(host("put", i32(0), i32(bufferAt), get(0)), drop, i32(64))}, nil)
		_, err := m.Check(context.Background(), &c.call)
		var se *StatusError
		if !errors.As(err, &se) || se.Text != chain.Heard(c.want) {
			t.Errorf("the guest saw %v", err)
		}
	}
}

// TestAnnotationsAreJSON: what a check puts beside its decision is one JSON document without twins, or the call fails.
func TestAnnotationsAreJSON(t *testing.T) {
	for text, good := range map[string]bool{`{"a":{"b":1}}`: true, ` [1.50, null] `: true, `"x"`: true, "": false,
		"{": false, `{"a":1,"a":1}`: false, `{"o":{"a":1,"\u0061":2}}`: false,
		`{} {}`: false, "\xff": false, "nul": false} {
		put := host("put", i32(abi.SlotAnnotations), i32(512), i32(len(text)))
		permit := decision(abi.EffectPermit, kindAt, kindLen, 0, 0, 0)
		inBoth(t, guest{scan: cat(put, drop, i32(0)), check: cat(permit, drop, put, drop, i32(0)), edit: func(m *mod) {
			m.datas = append(m.datas, data{512, text})
		}}, nil, func(t *testing.T, m tester) {
			v, checked := m.Check(context.Background(), &chain.Call{AgentID: "a"})
			_, scanned := m.ScanWindow(context.Background(), Window{Text: "x", Flags: abi.FlagFirst | abi.FlagFinal})
			for _, err := range []error{checked, scanned} {
				if good != (err == nil) || !good && !errors.Is(err, ErrPut) {
					t.Errorf("%q: %v", text, err)
				}
			}
			if good != (v.Effect == sdk.Permit) {
				t.Errorf("%q: %+v", text, v)
			}
		})
	}
}
