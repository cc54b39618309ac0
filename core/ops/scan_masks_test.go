package ops_test

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// A value has one mask in a session, whole and in a stream, and another one for another session, agent or key.
func TestScanMasks(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	b.gen.Scan.Actions = []chain.ActionRule{{Action: sdk.Redact, Replacement: "<{mask}>"}}
	one, two := b.newKey("one", "agent"), b.newKey("two", "agent")
	ask := func(session, agent string) string {
		return `{"tool_id":"t/x","agent_id":"` + agent + `","session_id":"` + session + `","output":"a!b!"}`
	}
	mask := func(answer string) string {
		t.Helper()
		parts := strings.FieldsFunc(answer, func(r rune) bool { return r == '<' || r == '>' })
		if len(parts) < 4 || parts[1] != parts[3] || len(parts[1]) != 8 {
			t.Fatalf("no two equal masks: %s", answer)
		}
		return parts[1]
	}
	plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">")
	scan := func(value, body string) string { return mask(plain.Replace(b.must(value, "scan_output", body))) }
	first := scan(one.Value, ask("s", "a"))
	if again := scan(one.Value, ask("s", "a")); again != first {
		t.Errorf("the same value has the masks %s and %s in one session", first, again)
	}
	if streamed := mask(b.say(one, "x", 0, "a!b!", last)); streamed != first {
		t.Errorf("in a stream it has %s, and %s whole", streamed, first)
	}
	for name, other := range map[string]string{"session": scan(one.Value, ask("s2", "a")),
		"agent": scan(one.Value, ask("s", "b")), "key": scan(two.Value, ask("s", "a"))} {
		if other == first {
			t.Errorf("another %s has the same mask", name)
		}
	}
}
