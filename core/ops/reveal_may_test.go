package ops_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/wire"
)

// tokenBench is a bench that puts tokens in the place of what it finds, and a key that scans for all agents.
func tokenBench(t *testing.T) (*bench, *ops.NewKey) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	b.gen.Scan.Actions = []chain.ActionRule{{Action: sdk.Redact, Replacement: "{token}"}}
	return b, b.newKey("scanning", "agent")
}

// hide is the text with a token that a scan for an agent and a session gives.
func (b *bench) hide(key *ops.NewKey, agent, session string) string {
	b.t.Helper()
	answer := b.must(key.Value, "scan_output", fmt.Sprintf(`{"tool_id":"t/x","agent_id":%s,"session_id":%s,"output":"a!"}`,
		quoteJSON(agent), quoteJSON(session)))
	var r wire.ScanResponse
	if err := json.Unmarshal([]byte(answer), &r); err != nil || r.SanitizedOutput == nil {
		b.t.Fatalf("%v: %s", err, answer)
	}
	return *r.SanitizedOutput
}

// reveals asks for a text's values: the text, or the code of the error.
func (b *bench) reveals(key *ops.NewKey, agent, session, text string) string {
	b.t.Helper()
	answer, err := b.run(key.Value, "reveal", fmt.Sprintf(`{"agent_id":%s,"session_id":%s,"text":%s}`, quoteJSON(agent),
		quoteJSON(session), quoteJSON(text)))
	if err != nil {
		return code(err)
	}
	var r wire.RevealResponse
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		b.t.Fatal(err)
	}
	if (r.Revealed == 1) != (r.Text == "a!") || r.Revealed+r.Unknown != 1 {
		b.t.Errorf("%s says %d revealed, %d unknown", answer, r.Revealed, r.Unknown)
	}
	return r.Text
}

func quoteJSON(s string) string {
	out, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// Only a live key with the scope reveal, and for that agent, gets a value back, whatever else it may do.
func TestRevealToWhoMay(t *testing.T) {
	b, scanning := tokenBench(t)
	token := b.hide(scanning, "a", "s")
	soon := b.now().Add(time.Hour)
	keys := 0
	key := func(spec ops.KeySpec) *ops.NewKey {
		t.Helper()
		keys++
		spec.Name = fmt.Sprint("key ", keys)
		k, err := b.svc.CreateKey(t.Context(), spec, admin)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	all := sdk.AnyScope.Names()
	others := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "reveal" })
	if len(others) != len(all)-1 {
		t.Fatalf("the scopes are %v", all)
	}
	revoked := key(ops.KeySpec{Scopes: []string{"reveal"}})
	if err := b.svc.RevokeKey(t.Context(), revoked.Key.ID, admin); err != nil {
		t.Fatal(err)
	}
	type row struct {
		key  *ops.NewKey
		want string
	}
	rows := map[string]row{
		"the scope":                  {key(ops.KeySpec{Scopes: []string{"reveal"}}), "a!"},
		"all scopes":                 {key(ops.KeySpec{Scopes: all}), "a!"},
		"all scopes but this":        {key(ops.KeySpec{Scopes: others}), "missing_scope"},
		"the scope for this agent":   {key(ops.KeySpec{Scopes: []string{"reveal"}, Agents: []string{"z", "a"}}), "a!"},
		"the scope for other agents": {key(ops.KeySpec{Scopes: []string{"reveal"}, Agents: []string{"b", "aa*"}}), "agent_not_allowed"},
		"revoked":                    {revoked, "key_revoked"},
		"still valid":                {key(ops.KeySpec{Scopes: []string{"reveal"}, ExpiresAt: soon.Add(time.Hour)}), "a!"},
		"expired":                    {key(ops.KeySpec{Scopes: []string{"reveal"}, ExpiresAt: soon}), "key_expired"},
		"what made the token":        {scanning, "missing_scope"},
	}
	for name := range sdk.Presets {
		rows["preset "+name] = row{key(ops.KeySpec{Preset: name}), "missing_scope"}
	}
	for _, scope := range others {
		rows["scope "+scope] = row{key(ops.KeySpec{Scopes: []string{scope}}), "missing_scope"}
	}
	b.offset.Add(int64(90 * time.Minute))
	for name, r := range rows {
		if got := b.reveals(r.key, "a", "s", token); got != r.want {
			t.Errorf("%s: %s, want %s", name, got, r.want)
		}
	}
}

// A token is of one agent's one session: for every other pair it stays as it is, also where the names, written one
// behind the other, are the same. A scan that names no session gives none.
func TestRevealOfItsSessionOnly(t *testing.T) {
	b, scanning := tokenBench(t)
	may := b.revealer()
	pairs := [][2]string{{"a", "s"}, {"a", "s2"}, {"b", "s"}, {"as", "s"}, {"a", "ss"}, {"A", "s"}, {"a/s", "s"},
		{"a", "s/s"}, {"s", "a"}, {"a s", "s"}, {"a", "s s"}, {"é", "s"}, {"e\u0301", "s"}}
	tokens := map[string]bool{}
	for _, of := range pairs {
		token := b.hide(scanning, of[0], of[1])
		if tokens[token] {
			t.Errorf("%q has the token of another session", of)
		}
		tokens[token] = true
		for _, to := range pairs {
			want := token
			if of == to {
				want = "a!"
			}
			if got := b.reveals(may, to[0], to[1], token); got != want {
				t.Errorf("a token of %q is for %q %s", of, to, got)
			}
		}
	}
	for _, name := range []string{"a\x00s", "\x00"} { // these part the names where keys are made of them
		for _, pair := range [][2]string{{name, "s"}, {"a", name}} {
			if got := b.reveals(may, pair[0], pair[1], "[K#QUFB]"); !strings.Contains(got, "NUL character") {
				t.Errorf("%q: %s", pair, got)
			}
		}
	}
	limited, err := b.svc.CreateKey(t.Context(), ops.KeySpec{Name: "limited", Scopes: []string{"reveal"},
		Agents: []string{"b"}}, admin)
	if err != nil {
		t.Fatal(err)
	}
	nobody := b.hide(scanning, "", "s")
	for _, k := range []*ops.NewKey{limited, may} {
		if got := b.reveals(k, "", "s", nobody); got != "invalid_field" {
			t.Errorf("%s asks for the tokens of a text that names no agent: %s", k.Key.Name, got)
		}
	}
	if token := b.hide(scanning, "a", ""); strings.Contains(token, "#") {
		t.Errorf("without a session there is a token: %s", token)
	}
}

// What a stream hides, its session's tokens bring back: they are those of one scan.
func TestRevealOfAStream(t *testing.T) {
	b, scanning := tokenBench(t)
	may := b.revealer()
	whole := b.hide(scanning, "a", "s")
	got := b.say(scanning, "x", 0, "a", "") + b.say(scanning, "x", 1, "!", last)
	if !strings.Contains(got, strings.TrimPrefix(whole, "a")) {
		t.Errorf("a stream gives %s, one scan %s", got, whole)
	}
	if out := b.reveals(may, "a", "s", whole); out != "a!" {
		t.Error(out)
	}
}
