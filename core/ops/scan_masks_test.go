package ops_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/wire"
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

// revealer is a key that may reveal tokens, and nothing else.
func (b *bench) revealer() *ops.NewKey {
	b.t.Helper()
	k, err := b.svc.CreateKey(b.t.Context(), ops.KeySpec{Name: "support", Scopes: []string{"reveal"}}, admin)
	if err != nil {
		b.t.Fatal(err)
	}
	return k
}

// A token is revealed to a key with the scope, for its agent and session, and the log has it before the answer.
func TestReveal(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	b.gen.Scan.Actions = []chain.ActionRule{{Action: sdk.Redact, Replacement: "{token}"}}
	agent, may := b.newKey("agent", "agent"), b.revealer()
	scanned := b.must(agent.Value, "scan_output", `{"tool_id":"t/x","agent_id":"a","session_id":"s","output":"hello!"}`)
	var r wire.ScanResponse
	if err := json.Unmarshal([]byte(scanned), &r); err != nil || r.SanitizedOutput == nil ||
		!strings.HasPrefix(*r.SanitizedOutput, "hello[BANG#") {
		t.Fatalf("%v: %s", err, scanned)
	}
	ask := func(key *ops.NewKey, agent, session string) string {
		out, err := b.run(key.Value, "reveal", fmt.Sprintf(`{"agent_id":%q,"session_id":%q,"text":%q}`, agent, session,
			"["+*r.SanitizedOutput+"]"))
		if err != nil {
			return code(err)
		}
		return out
	}
	if got, want := ask(may, "a", "s"), `{"text":"[hello!]","revealed":1,"unknown":0}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, other := range [][2]string{{"a", "s2"}, {"b", "s"}} {
		got := ask(may, other[0], other[1])
		if !strings.Contains(got, `"revealed":0,"unknown":1`) || strings.Contains(got, "hello!") {
			t.Errorf("%v: %s", other, got)
		}
	}
	if got := ask(agent, "a", "s"); got != "missing_scope" {
		t.Errorf("without the scope: %s", got)
	}
	if got := ask(may, "a", ""); got != "invalid_field" {
		t.Errorf("without a session: %s", got)
	}
	kill := &store.KillSwitch{Kill: store.Kill{Scope: store.KillKey, Target: may.Key.ID, By: "boss"}, By: admin}
	if err := b.store.Commit(t.Context(), kill); err != nil {
		t.Fatal(err)
	}
	if got := ask(may, "a", "s"); got != "key_killed" {
		t.Errorf("a killed key: %s", got)
	}
	var records []string
	if err := b.store.Records(1, func(_ uint64, record []byte) error {
		if strings.Contains(string(record), `"type":"tokens_revealed"`) {
			records = append(records, string(record))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(records) != 3 || !strings.Contains(records[0], `"agent_id":"a","session_id":"s","revealed":"1","unknown":"0"`) ||
		!strings.Contains(records[1], `"revealed":"0","unknown":"1"`) {
		t.Errorf("the log has %q", records)
	}
	plain := b.must(agent.Value, "scan_output", `{"tool_id":"t/x","agent_id":"a","output":"hello!"}`)
	if !strings.Contains(plain, `"hello[BANG]"`) {
		t.Errorf("without a session: %s", plain)
	}
}

// Nothing is revealed that could not be written down.
func TestRevealNeedsTheLog(t *testing.T) {
	b, f := scanBench(t, abi.StreamStateful, bang{})
	may := b.revealer()
	f.fail.Store(true)
	out, err := b.run(may.Value, "reveal", `{"agent_id":"a","session_id":"s","text":"[K#QUFBQUFBQUFBQUFBQUFBQUFBQUE]"}`)
	if err == nil || out != "" {
		t.Errorf("answered %s", out)
	}
}
