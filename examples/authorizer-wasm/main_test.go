package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/scanner"
)

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name, call string
		effect     uint8
		code       string
	}{
		{"another tool", `{"tool_id":"orders/read","args":{"amount":5000}}`, abi.EffectAbstain, ""},
		{"no tool", `{"args":{"amount":5000}}`, abi.EffectAbstain, ""},
		{"small", `{"tool_id":"payments/pay","args":{"amount":99.99}}`, abi.EffectAbstain, ""},
		{"at the lower limit", `{"tool_id":"payments/pay","args":{"amount":100}}`, abi.EffectAbstain, ""},
		{"between", `{"tool_id":"payments/pay","args":{"amount":100.01}}`, abi.EffectDefer, "AMOUNT_NEEDS_APPROVAL"},
		{"at the upper limit", `{"tool_id":"payments/pay","args":{"amount":1e3}}`, abi.EffectDefer, "AMOUNT_NEEDS_APPROVAL"},
		{"above", `{"tool_id":"payments/pay","args":{"to":"x","amount":1000.01}}`, abi.EffectDeny, "AMOUNT_TOO_HIGH"},
		{"no amount", `{"tool_id":"payments/pay","args":{}}`, abi.EffectDeny, "AMOUNT_UNREADABLE"},
		{"no args", `{"tool_id":"payments/pay"}`, abi.EffectDeny, "AMOUNT_UNREADABLE"},
		{"an amount as text", `{"tool_id":"payments/pay","args":{"amount":"5"}}`, abi.EffectDeny, "AMOUNT_UNREADABLE"},
		{"a negative amount", `{"tool_id":"payments/pay","args":{"amount":-5}}`, abi.EffectDeny, "AMOUNT_UNREADABLE"},
		{"an amount out of range", `{"tool_id":"payments/pay","args":{"amount":1e999}}`, abi.EffectDeny, "AMOUNT_UNREADABLE"},
		{"an amount further down", `{"tool_id":"payments/pay","args":{"x":{"amount":5}}}`, abi.EffectDeny, "AMOUNT_UNREADABLE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d scanner.Decision
			if err := check([]byte(tt.call), &d); err != nil || d.Effect != tt.effect || d.Code != tt.code ||
				(d.Reason == "") != (tt.code == "") {
				t.Errorf("got %+v, %v, want effect %d, code %q", d, err, tt.effect, tt.code)
			}
		})
	}
}

// What is no call is an error, and an error is never a permit.
func TestCheckRefuses(t *testing.T) {
	for _, call := range []string{``, `[]`, `{"tool_id":5}`, `{"tool_id":"payments/pay","args":[]}`,
		`{"tool_id":"payments/pay","tool_id":"x"}`} {
		var d scanner.Decision
		if err := check([]byte(call), &d); err == nil || d.Effect != abi.EffectAbstain {
			t.Errorf("%s: got %+v, %v", call, d, err)
		}
	}
}

func TestConfigure(t *testing.T) {
	defaults := config
	t.Cleanup(func() { config = defaults })
	for _, tt := range []struct {
		doc string
		ok  bool
	}{
		{`{}`, true}, {`{"tool":"bank/transfer","deny_above":10,"defer_above":0}`, true}, {`{"deny_above":100}`, true},
		{`{"deny_above":99}`, false}, {`{"defer_above":1001}`, false}, {`{"deny_above":-1}`, false}, {`{"deny_above":"9"}`, false},
		{`{"tool":""}`, false}, {`{"tool":1}`, false}, {`{"limit":5}`, false}, {`[]`, false},
	} {
		config = defaults
		if err := configure([]byte(tt.doc)); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.doc, err)
		}
	}
}

// The module decides the same in the gateway's sandbox.
func TestModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the module and yett; not in -short")
	}
	module := filepath.Join(t.TempDir(), "payment-limits.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o",
		module, ".")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	vectors := filepath.Join("testdata", "vectors.yaml")
	if _, err := os.ReadFile(vectors); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "run", "../../cmd/yett", "scanner", "test", module, "--vectors",
		vectors).CombinedOutput(); err != nil {
		t.Errorf("yett scanner test: %v\n%s", err, out)
	}
}
