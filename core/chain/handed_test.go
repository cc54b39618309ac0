package chain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

// odd is a secret that every way of quoting writes in another way.
var odd = strings.Join([]string{`pa"ss\wor`, "<d>&/+", "\x1b\t€\u200b-9"}, "7")

func hider(values ...string) *Hider {
	var all []Handed
	for i, v := range values {
		all = append(all, Handed{fmt.Sprintf("plugins.p.secrets.s%d", i), v})
	}
	return NewHider(all)
}

func TestHiderKnowsQuotedForms(t *testing.T) {
	h, mark := hider(odd), "[secret of plugins.p.secrets.s0]"
	jsonText, err := json.Marshal(odd)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"as it is": odd, "%q": fmt.Sprintf("%q", odd), "%+q": fmt.Sprintf("%+q", odd), "JSON": string(jsonText),
		"query": url.QueryEscape(odd), "path": url.PathEscape(odd), "quoted twice": fmt.Sprintf("%q", fmt.Sprintf("%q", odd)),
		"heard": Heard(odd), "JSON in %q": fmt.Sprintf("%q", jsonText),
	} {
		got := h.Hide("bad token " + text + " given")
		if want := "bad token "; !strings.HasPrefix(got, want) || !strings.Contains(got, mark) ||
			!strings.HasSuffix(got, " given") || strings.Contains(got, "wor7") || strings.Contains(got, "-9") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestHider(t *testing.T) {
	a, b := "alpha"+"-0123-omega", "omega"+"-4567-end"
	pem := "-----BEGIN KEY-----\n" + strings.Repeat("Q0", 32) + "\n" + strings.Repeat("Z9", 32) + "\n-----END KEY-----\n"
	h := hider(a, b, pem, "abc", "true")
	s := func(i int) string { return fmt.Sprintf("[secret of plugins.p.secrets.s%d]", i) }
	for text, want := range map[string]string{
		"":                                   "",
		"nothing here, abc":                  "nothing here, abc", // too short
		a + a:                                s(0) + s(0),
		"it is true":                         "it is " + s(4),
		"x" + a + ",":                        "x" + s(0) + ",",
		"alpha-0123-omega-4567-end":          s(0), // two that overlap
		"a line " + strings.Repeat("Z9", 32): "a line " + s(2),
		"cut: alpha-0123…":                   "cut: " + s(0) + "…",
		"cut: alpha-01… (80 bytes more)":     "cut: " + s(0) + "… (80 bytes more)",
		"cut: alpha-":                        "cut: " + s(0),
		"cut: alph":                          "cut: alph",
		// of which "true" is no part, but of no mark anything is hidden
		"was " + s(4) + " before": "was " + s(4) + " before",
	} {
		if got := h.Hide(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if again := h.Hide(h.Hide(text)); again != want {
			t.Errorf("%q, twice: %q", text, again)
		}
	}
	if got := hider("secret").Hide("the secret of plugins"); got != "the [secret of plugins.p.secrets.s0] of plugins" ||
		hider("secret").Hide(got) != got {
		t.Errorf("a word of the mark: %s", got)
	}
	if NewHider(nil) != nil || hider("abc") != nil || (*Hider)(nil).Hide(a) != a {
		t.Error("what hides nothing is nil")
	}
	if got := h.Within(strings.Repeat("true ", 100), 600); len(got) > 600 || strings.Contains(got, "true ") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestHiderOfErrors(t *testing.T) {
	token := "tok" + "_0123456789"
	h := hider(token)
	own := fmt.Errorf("ask: %w", &Spoken{Err: fmt.Errorf("code %s: %w", token, io.EOF), Words: "cannot use " + token})
	err := h.Error(own)
	if !errors.Is(err, io.EOF) || !ours(err) || strings.Contains(err.Error()+Words(err), token) ||
		!strings.Contains(err.Error(), "[secret of") || !strings.Contains(Words(err), "cannot use [secret of") {
		t.Errorf("%v; %s", err, Words(err))
	}
	if wrapped := fmt.Errorf("step: %w", errors.Join(err, io.ErrClosedPipe)); strings.Contains(wrapped.Error()+
		Words(wrapped), token) {
		t.Errorf("%v; %s", wrapped, Words(wrapped))
	}
	if plain := errors.New("nothing"); h.Error(plain) != plain || h.Error(nil) != nil {
		t.Error("what holds nothing stays as it is")
	}
}

func TestHiderOfAnswers(t *testing.T) {
	token := strings.Repeat("T0K", 4)
	h := hider(token)
	v, err := h.Verdict(sdk.Verdict{Effect: sdk.Deny, Code: "NO", Reason: token, Message: token, RuleID: token}, 1024)
	if err != nil || v.Code != "NO" || strings.Contains(v.Reason+v.Message+v.RuleID, token) || v.Reason == "" {
		t.Errorf("%+v, %v", v, err)
	}
	for name, v := range map[string]sdk.Verdict{"code": {Effect: sdk.Permit, Code: "A_" + token},
		"code without effect": {Code: "A_" + token}} {
		if got, err := h.Verdict(v, 1024); err == nil || strings.Contains(err.Error(), token) || got.Effect != sdk.Abstain ||
			got.Code != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, v := range map[string]sdk.Verdict{"denial": {Effect: sdk.Deny, Code: "A_" + token},
		"approver": {Effect: sdk.Defer, Code: "A", From: []string{"key:" + token}}} {
		got, err := h.Verdict(v, 1024) // no on_error makes it weaker
		if err != nil || got.Effect != sdk.Deny || got.Code != sdk.ReasonStepError || strings.Contains(got.Reason, token) ||
			!strings.Contains(got.Reason, "holds the secret of plugins.p.secrets.s0") || got.From != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	f := h.Findings([]sdk.Finding{{Kind: "A", Replacement: "<" + token + ">"}}, 1024)
	if f[0].Replacement != "<[secret of plugins.p.secrets.s0]>" {
		t.Errorf("%+v", f)
	}
}
