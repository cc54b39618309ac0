package loaded

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// An agent whose list is long makes conditions dear that an operator wrote for short ones. The chain's budget ends
// them, as it ends any other step, and the call is not permitted.
func TestConditionsEndWithTheChainsBudget(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 30 {
		fmt.Fprintf(&text, "  - {id: twice%d, tools: ['rule/*'], effect: deny, when: 'args.items.exists(x, "+
			"args.items.exists(y, x.id != y.id && x.iban == y.iban && x.id > %d))'}\n", i, i)
	}
	text.WriteString("  - {id: rest, tools: ['**'], effect: permit}\n")
	a, err := CompilePolicy(text.String())
	if err != nil {
		t.Fatal(err)
	}
	a.Budget = 20 * time.Millisecond
	var list strings.Builder
	for i := range 200 {
		fmt.Fprintf(&list, `,{"id":%d,"iban":"DE%020d"}`, i, i)
	}
	var doc exact.Doc
	if err := doc.Parse(`{"items":[`+list.String()[1:]+`]}`, exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	args := doc.Root()
	for onError, want := range map[sdk.Effect]string{sdk.Deny: "DENY STEP_TIMEOUT", sdk.Defer: "DENY STEP_TIMEOUT",
		sdk.Abstain: "DENY STEP_TIMEOUT"} {
		a.Steps[0].OnError = onError
		res := a.Run(t.Context(), &chain.Call{KeyID: "key_1", AgentID: "a", ToolID: "rule/x", Args: args}, nil)
		if got := res.Verdict.Effect.String() + " " + res.Verdict.Code; got != want {
			t.Errorf("on_error %v: got %s (%s), want %s", onError, got, res.Verdict.Reason, want)
		}
	}
	if res := a.Run(t.Context(), &chain.Call{KeyID: "key_1", AgentID: "a", ToolID: "other", Args: args},
		nil); res.Verdict.Code != sdk.ReasonRulePermit {
		t.Errorf("no condition concerns this call: %+v", res.Verdict)
	}
	if n := conditions.InUse(); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

// A key whose dear conditions have every place waits for itself. Another key's find one, and the usual call asks for
// none.
func TestOneKeysDearConditionsLeaveOthersAlone(t *testing.T) {
	a, err := CompilePolicy("rules: [{id: sums, tools: ['rule/*'], effect: permit, when: 'args.items.all(x, " +
		"args.items.exists(y, x == y))'}, {id: rest, tools: ['**'], effect: permit}]")
	if err != nil {
		t.Fatal(err)
	}
	var doc exact.Doc
	if err := doc.Parse(`{"items":[`+strings.Repeat("1,", 1500)+`1]}`, exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	free := max(runtime.GOMAXPROCS(0)-1, 1)
	for range free {
		if err := conditions.Take(t.Context(), "greedy", time.Time{}); err != nil {
			t.Fatal(err)
		}
		defer conditions.Give("greedy")
	}
	ask := func(key, tool string, budget time.Duration) string {
		a.Budget = budget
		return a.Run(t.Context(), &chain.Call{KeyID: key, AgentID: "a", ToolID: tool, Args: doc.Root()}, nil).Verdict.Code
	}
	if got := ask("greedy", "rule/x", 30*time.Millisecond); got != sdk.ReasonStepTimeout {
		t.Errorf("a dear call of the key that has all places: %s", got)
	}
	if got := ask("other", "rule/x", time.Minute); got != sdk.ReasonRulePermit {
		t.Errorf("a dear call of another key: %s", got)
	}
	if got := ask("greedy", "files/read", time.Minute); got != sdk.ReasonRulePermit {
		t.Errorf("a usual call: %s", got)
	}
	if n := conditions.InUse(); n != free {
		t.Errorf("%d places are taken, want %d", n, free)
	}
}
