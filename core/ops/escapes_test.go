package ops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
)

// spellings are ways to write a word inside a JSON string.
func spellings(word string) []string {
	all := ""
	for _, r := range word {
		all += fmt.Sprintf(`\u%04x`, r)
	}
	one := fmt.Sprintf(`\u%04X`, word[3])
	return []string{all, word[:3] + one + word[4:], word[:3] + `\` + one + word[4:],
		word[:3] + `\u005c` + one[1:] + word[4:], word[:3] + `\\\` + one + word[4:]}
}

// A secret that is spelled with escapes is masked in all that is kept of an action, as it is when it is spelled
// plainly.
func TestEscapesHideNothingFromTheMask(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	const shown = "[SECRET_TEST: 9 characters (6 letters, 2 digits, 1 sign), begins SE…]"
	for i, spelled := range spellings(secret) {
		for tool, effect := range map[string]string{"permit": "allowed", "defer": "pending_approval"} {
			s.advance(3 * time.Second)
			a := s.action(req{key: agent, op: "action_submit",
				body: fmt.Sprintf(`{"agent_id":"a","tool":%q,"params":{"n":%d,"p":"x %s"},"context":{"%s":1}}`, tool, i, spelled,
					spelled)})
			if a.Status != effect {
				t.Errorf("%s: %+v", spelled, a)
			}
			got := s.action(req{key: agent, op: "action_get", id: a.ID})
			if want := fmt.Sprintf(`{"n":%d,"p":"x %s"}`, i, shown); string(got.Params) != want {
				t.Errorf("%s: kept the params %s, want %s", spelled, got.Params, want)
			}
			if want := `{"` + shown + `@2":1}`; string(got.Context) != want {
				t.Errorf("%s: kept the context %s, want %s", spelled, got.Context, want)
			}
			if tool != "permit" {
				continue
			}
			s.action(req{key: agent, op: "action_start", id: a.ID})
			end := s.action(req{key: agent, op: "action_result", id: a.ID,
				body: fmt.Sprintf(`{"success":true,"error":"e %s","result":{"r":"%s"}}`, spelled, spelled)})
			if want := `{"r":"[SECRET_TEST]"}`; string(end.Result.Value) != want || end.Result.Error != "e [SECRET_TEST]" {
				t.Errorf("%s: kept the result %s and the error %q", spelled, end.Result.Value, end.Result.Error)
			}
		}
	}
	for _, spelled := range append(spellings(secret), secret) {
		s.nowhere(spelled)
	}
}

// A key's value is recognised in every spelling, and written nowhere.
func TestEscapesHideNoKey(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	k, err := s.svc.CreateKey(context.Background(), ops.KeySpec{Name: "leaked", Preset: "agent"}, admin)
	if err != nil {
		t.Fatal(err)
	}
	for i, spelled := range spellings(k.Value) {
		if !ops.HoldsKey("a " + spelled) {
			t.Errorf("%s is not taken for a key's value", spelled)
		}
		s.advance(3 * time.Second)
		a := s.action(submit(agent, "permit", fmt.Sprintf(`{"n":%d,"k":"%s"}`, i, spelled)))
		if got := s.action(req{key: agent, op: "action_get", id: a.ID}); !strings.Contains(string(got.Params),
			`"k":"[YETT_API_KEY: `) {
			t.Errorf("kept %s", got.Params)
		}
		s.nowhere(spelled)
	}
	s.nowhere(k.Value)
}

// The log tells that it was the same secret, however it was spelled.
func TestSpellingsHaveOneHash(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	for _, spelled := range append(spellings(secret), secret) {
		body := strings.ReplaceAll(fmt.Sprintf(`["%s"]`, spelled), `\`, `\\`)
		if _, err := s.do(req{key: agent, op: "scan_output",
			body: `{"tool_id":"t","output":"` + strings.ReplaceAll(body, `"`, `\"`) + `"}`}); err != nil {
			t.Fatal(err)
		}
	}
	hashes := map[string]int{}
	if err := s.store.Records(1, func(_ uint64, rec []byte) error {
		if _, rest, ok := strings.Cut(string(rec), `"hash":"`); ok && strings.Contains(string(rec), `"type":"scan"`) {
			hashes[rest[:32]]++
		}
		return nil
	}); err != nil || len(hashes) != 1 {
		t.Errorf("hashes %v, want one: %v", hashes, err)
	}
}

// A key's value is kept nowhere and shown to nobody, wherever it stands in a call: as a name, with id and secret in two
// members, with dashes or blanks put in. In what is kept as sent, it is refused.
func TestKeysInPartsAreKeptNowhere(t *testing.T) {
	for _, kept := range []string{"redacted", "full", "digest"} {
		s := newStage(t)
		s.args = kept
		s.restart()
		agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
		k, err := s.svc.CreateKey(context.Background(), ops.KeySpec{Name: "leaked", Preset: "agent"}, admin)
		if err != nil {
			t.Fatal(err)
		}
		id, secret := k.Value[:17], k.Value[18:]
		dashed, spaced := id+"-"+secret[:20]+"-"+secret[20:], strings.Join(strings.Split(k.Value[5:], ""), " ")
		for name, args := range map[string]string{
			"a name":         fmt.Sprintf(`{"%s":1}`, k.Value),
			"a name inside":  fmt.Sprintf(`{"a":[{"x %s y":{"b":1}}]}`, k.Value),
			"two members":    fmt.Sprintf(`{"key_id":"%s","key_secret":"%s"}`, id[5:], secret),
			"secret first":   fmt.Sprintf(`{"a":{"secret":"%s"},"b":["%s"]}`, secret, id),
			"names in names": fmt.Sprintf(`{"%s":{"%s":true}}`, id, secret),
			"dashes":         fmt.Sprintf(`{"k":"%s"}`, dashed),
			"blanks":         fmt.Sprintf(`{"k":"yett %s"}`, spaced),
		} {
			for _, tool := range []string{"permit", "deny", "defer"} {
				for op, body := range map[string]string{"authorize": `{"agent_id":"a","tool_id":%q,"args":%s,"context":%s}`,
					"action_submit": `{"agent_id":"a","tool":%q,"params":%s,"context":%s}`} {
					if _, err := s.do(req{key: agent, op: op, body: fmt.Sprintf(body, tool, args, args)}); err != nil {
						t.Fatalf("%s, %s: %v", name, op, err)
					}
				}
			}
			for _, q := range []req{{key: boss, op: "approvals_list"}, {key: agent, op: "action_list"}} {
				list, err := s.do(q)
				for _, text := range []string{secret, dashed, spaced} {
					if err != nil || strings.Contains(list, text) {
						t.Errorf("%s: %s: %v %s", name, q.op, err, list)
					}
				}
			}
		}
		for _, field := range []string{"agent_id", "session_id", "operation", "call_id", "tool_id"} {
			for _, text := range []string{k.Value, strings.ReplaceAll(k.Value, "_", "-"), id[5:] + " " + secret} {
				for _, op := range []string{"authorize", "govern", "evaluate"} {
					body := map[string]string{"agent_id": "a", "tool_id": "permit"}
					body[field] = text
					sent, err := json.Marshal(body)
					if err != nil {
						t.Fatal(err)
					}
					s.refused(req{key: agent, op: op, body: string(sent)}, sdk.CodeInvalidField)
				}
			}
		}
		s.refused(req{key: agent, op: "authorize",
			body: fmt.Sprintf(`{"agent_id":"%s","tool_id":"permit","session_id":"%s"}`, id, secret)}, sdk.CodeInvalidField)
		s.refused(req{key: agent, op: "scan_output",
			body: fmt.Sprintf(`{"agent_id":"%s","tool_id":"permit","session_id":"%s","output":""}`, id, secret)},
			sdk.CodeInvalidField)
		for _, text := range []string{secret, dashed, spaced} {
			s.nowhere(text)
		}
	}
}
