package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
)

// builtinSecrets is a chain of the built-in scanner for secrets, which redacts.
func builtinSecrets(t *testing.T) *chain.ScanChain {
	t.Helper()
	ctx := context.Background()
	h, err := host.New(ctx, host.Options{CacheDir: compiled})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	code, _ := scanners.Builtin("secrets")
	m, err := h.Load(ctx, host.Spec{Name: "secrets", Code: code, Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := &chain.ScanChain{Budget: time.Minute, Now: time.Now, Actions: []chain.ActionRule{{Action: sdk.Redact}},
		Steps: []chain.ScanStep{{Name: "secrets", OnError: sdk.Deny, Scanner: m, Triggers: m.Metadata().Triggers,
			Stream: m.Metadata().Stream}}}
	if err := c.Prepare(); err != nil {
		t.Fatal(err)
	}
	return c
}

// What the built-in scanner calls passwords is shown by its length and make alone; and where there are more secrets
// than it can name, nothing of the text is kept.
func TestBuiltinSecretsAsShown(t *testing.T) {
	c, password := builtinSecrets(t), "Win"+"ter7!mallow"
	args := func(n int) *chain.Input {
		in := &chain.Input{ToolID: "t", ContentType: "application/json", Patient: true}
		in.Text = `{"p":"` + strings.Repeat("pass"+"word='"+password+"' ", n) + `","to":"Mallory"}`
		return in
	}
	m, err := c.Look(context.Background(), args(1))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"p":"password='[SECRET_PASSWORD: 14 characters (12 letters, 1 digit, 1 sign)]' ","to":"Mallory"}`
	if got, err := m.Shown(); err != nil || got != want {
		t.Errorf("shown %s %v, want %s", got, err, want)
	}
	var why *chain.UnmaskedError
	if got, err := c.Mask(context.Background(), args(300)); !errors.As(err, &why) || why.Cause != chain.CauseTooMany {
		t.Errorf("kept %s %v", got, err)
	}
}

// The built-in scanner for secrets finds them in every spelling that JSON has and in every colour, by their own form
// and by the name beside them.
func TestBuiltinSecretsInEscapes(t *testing.T) {
	ctx, c := context.Background(), builtinSecrets(t)
	value := "x7Kq2mV9tR4wZ1nB8cY5" + "dL3fH6jP0sGaT2uE"
	pem := "-----BEGIN RSA " + "PRIVATE KEY-----\n" + strings.Repeat(value+value[:28]+"\n", 6) + "-----END RSA " +
		"PRIVATE KEY-----\n"
	for name, secret := range map[string]string{"a token": "gh" + "p_" + value, "an assignment": "api_key=" + value,
		"a key": pem, "JSON": `{"password":"` + value[:16] + `"}`} {
		all, some := "", ""
		for i, r := range secret {
			all += fmt.Sprintf(`\u%04x`, r)
			if i%3 == 0 || r < ' ' || r == '"' || r == '\\' {
				some += fmt.Sprintf(`\u%04X`, r)
			} else {
				some += string(r)
			}
		}
		twice, _ := json.Marshal(`{"inner":"` + some + `"}`)
		for spelling, text := range map[string]string{"all": `["` + all + `"]`, "some": `{"a":"` + some + `"}`,
			"twice": `{"outer":` + string(twice) + `}`, "cut short": `{"a":"` + all,
			"coloured":          "\x1b[1;31m" + secret + "\x1b[0m",
			"parted by colours": secret[:2] + "\x1b[31m" + secret[2:len(secret)-12] + "\x1b]0;a\x07" + secret[len(secret)-12:],
			"coloured in JSON":  `{"a":"\u001b[31m` + some + `"}`, "coloured in a shell": `\e[31m` + secret} {
			res := c.Run(ctx, &chain.Input{Text: text, ToolID: "t", ContentType: "application/json"})
			if read := chain.Decoded(res.Text); res.Outcome != chain.Redacted || strings.Contains(read, value[:16]) {
				t.Errorf("%s, %s: %s %v: %s", name, spelling, res.Outcome, res.Findings, read)
			}
			if json.Valid([]byte(text)) && !json.Valid([]byte(res.Text)) {
				t.Errorf("%s, %s: no JSON any more: %s", name, spelling, res.Text)
			}
		}
	}
}

// A colour in caret notation, as programs show it that make controls visible, hides no secret behind it.
func TestBuiltinSecretsBehindCarets(t *testing.T) {
	c, token := builtinSecrets(t), "gh"+"p_"+"x7Kq2mV9tR4wZ1nB8cY5"+"dL3fH6jP0sGaT2uE"
	for _, text := range []string{"^[[31m" + token, "a^[[1;38;2;9;9;9m" + token + "^[[0m.", `{"k":"^[[31m` + token + `"}`,
		`{"k":"^\u005b[31m` + token + `"}`} {
		kept, err := c.Mask(context.Background(), &chain.Input{Text: text, ToolID: "t", Patient: true})
		if err != nil || strings.Contains(kept, token) {
			t.Errorf("%q is kept as %q, %v", text, kept, err)
		}
	}
}
