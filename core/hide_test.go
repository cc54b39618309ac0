package core

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

const guestMark = "[secret of plugins.guest.secrets.token]"

// secretGuest is w.guest with a secret, which is in a file.
func (w *world) secretGuest(mode string) string {
	return strings.Replace(w.guest("authorizer", mode), "exec:", "secrets: {token: {file: token}}, exec:", 1)
}

// everything is what anybody may read: /readyz, the log, the records, the console, what operators list, the metrics.
func (w *world) everything() string {
	var all []string
	for _, part := range w.g.ready() {
		all = append(all, part.Name+": "+part.Detail)
	}
	if err := w.g.store.Records(1, func(_ uint64, record []byte) error {
		all = append(all, string(record))
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	all = append(all, w.logged(), fmt.Sprintf("%+v %+v", w.g.Config(), w.g.Plugins()))
	return strings.Join(all, "\n")
}

// TestSecretsAreNotSaidBack: what a plugin says of a secret that it was given shows the secret's name wherever it is
// read.
func TestSecretsAreNotSaidBack(t *testing.T) {
	secret := `tok"` + "_0123456789abcdef"
	w := newWorld(t, func(w *world) {
		w.put("token", secret+"\n")
		w.write(w.secretGuest("good:one"), guestStep, "")
	})
	for _, tool := range []string{"guest/tell", "guest/fail-telling"} {
		resp, err := newCaller(t, w.g, w.key, "authorize",
			fmt.Sprintf(`{"agent_id":"a","tool_id":%q,"explain":true}`, tool)).call()
		if err != nil {
			t.Fatal(err)
		}
		d := resp.(*wire.AuthorizeResponse)
		if told := fmt.Sprintf("%+v", d); d.Effect != "DENY" || strings.Contains(told, "_0123") ||
			tool == "guest/tell" && strings.Count(told, "with "+guestMark) < 3 {
			t.Errorf("%s: %s", tool, told)
		}
	}
	w.write(w.secretGuest("tells"), guestStep, "")
	_, err := w.reload()
	var e *sdk.Error
	if !errors.As(err, &e) || strings.Contains(e.Msg, "_0123") ||
		!strings.Contains(e.Msg, "token "+`"`+guestMark+`" is refused`) {
		t.Errorf("the reload: %v", err)
	}
	if got := w.part("config"); !strings.Contains(got, guestMark) {
		t.Errorf("/readyz: %s", got)
	}
	if got := w.recorded("config_refused"); len(got) != 1 || !strings.Contains(got[0], guestMark) {
		t.Errorf("the record: %v", got)
	}
	if got := strings.Join(w.recorded("decision"), ""); !strings.Contains(got, "it says: with "+guestMark) ||
		strings.Count(got, guestMark) < 2 {
		t.Errorf("the decisions: %s", got)
	}
	if got := w.logged(); !strings.Contains(got, "its token is "+guestMark) || strings.Count(got, guestMark) < 3 {
		t.Errorf("the log: %s", got)
	}
	if all := w.everything(); strings.Contains(all, "_0123456789abcdef") {
		t.Errorf("%s", all)
	}
	cfg, err := config.Load(config.Sources{File: filepath.Join(w.dir, "yett.yaml"), Builtins: []string{"secrets"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(context.Background(), cfg); err == nil || strings.Contains(err.Error(), "_0123") ||
		!strings.Contains(err.Error(), guestMark) {
		t.Errorf("config check: %v", err)
	}
}

// TestModulesSettingsAreNotLogged: a module's settings may refer to a secret too.
func TestModulesSettingsAreNotLogged(t *testing.T) {
	g := wasmgen.Finder()
	g.Meta = `{"name":"test","version":"1","abi":1,"kinds":[{"name":"TEST_KIND","severity":3},{"name":"OTHER_KIND","severity":1}],"stream":{"mode":"none"},"needs":{},` +
		`"config_schema":{"type":"object","properties":{"words":{"type":"array","items":{"type":"string"}}}},"triggers":[{"literal":"own"}],"triggers_from":[{"path":"/words","fold":true}]}`
	code := g.Encode()
	w := newWorld(t, func(w *world) {
		if err := os.WriteFile(filepath.Join(w.dir, "m.wasm"), code, 0o600); err != nil {
			t.Fatal(err)
		}
		w.put("word", "Größe-0123")
		w.put("yett.yaml", fmt.Sprintf("version: 1\nserver: {metrics: \"off\", drain: 20s}\nplugins:\n  m: {kind: "+
			"scanner, wasm: %q, digest: %q, sandbox: inproc, limits: {timeout: 5s}, config: {words: [\"${file:word}\"]}}\n"+
			"chains:\n  scan_output: {steps: [{use: m}], budget: 20s}\n  authorize: {budget: 30s, steps: [{name: house, "+
			"rules: [rules.yaml]}]}\n", filepath.Join(w.dir, "m.wasm"), pin.Digest(code)))
	})
	if all := w.everything(); strings.Contains(all, "-0123") ||
		!strings.Contains(all, `"[secret of plugins.m.config.words[0]]" has other letters`) {
		t.Errorf("%s", all)
	}
}
