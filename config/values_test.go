package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config/strict"
)

// inMemory loads files given by name; the main one is yett.yaml.
func inMemory(t *testing.T, files map[string]string, env ...string) *Config {
	t.Helper()
	src := Sources{File: "yett.yaml", Env: env, Files: map[string][]byte{}, Builtins: builtins}
	for name, text := range files {
		src.Files[name] = []byte(text)
	}
	c, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const withSecrets = `version: 1
plugins:
  secrets:
    kind: scanner
    builtin: secrets
    config:
      exact: 12345678901234567890.10
      big: 12345e67
      token: "${file:keys/token}"
      url: "https://u:${env:PW}@host/$${x}"
      list: ["${env:PW}", true, 2]
`

func TestSecretsReachTheModuleOnly(t *testing.T) {
	const fileSecret, envSecret = "from-a-file", "from-the-environment"
	c := inMemory(t, map[string]string{"yett.yaml": withSecrets, "keys/token": fileSecret + "\r\n"}, "PW="+envSecret,
		"PWX=other")
	values := c.Plugins["secrets"].Config
	want := `{"big":12345e67,"exact":12345678901234567890.10,"list":["` + envSecret + `",true,2],"token":"` + fileSecret +
		`","url":"https://u:` + envSecret + `@host/${x}"}`
	if got := string(values.JSON()); got != want {
		t.Errorf("the module gets\n%s\nwant\n%s", got, want)
	}
	if _, ok := values.Map()["exact"].(json.Number); !ok {
		t.Errorf("a number reached the module as %T", values.Map()["exact"])
	}

	var shown bytes.Buffer
	for _, defaults := range []bool{true, false} {
		if err := c.Print(&shown, defaults); err != nil {
			t.Fatal(err)
		}
	}
	value, origin, err := c.Explain("plugins.secrets.config.token")
	if err != nil || value != `"${file:keys/token}"` || origin != "yett.yaml:9:14" {
		t.Errorf("explain says %s, %s, %v", value, origin, err)
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&shown, "%v %+v %#v %s %v %s", c, *c, *c, asJSON, Default().Diff(c), value)
	for _, secret := range []string{fileSecret, envSecret} {
		if strings.Contains(shown.String(), secret) {
			t.Errorf("the secret %q is shown", secret)
		}
	}
}

func TestMapIsACopy(t *testing.T) {
	c := inMemory(t, map[string]string{"yett.yaml": withSecrets, "keys/token": "x"}, "PW=y")
	values := c.Plugins["secrets"].Config
	values.Map()["list"].([]any)[0] = "changed"
	if strings.Contains(string(values.JSON()), "changed") {
		t.Error("a change of the map changed the configuration")
	}
}

func TestHashIsThePolicy(t *testing.T) {
	base := map[string]string{
		"yett.yaml": strings.Replace(withSecrets, "version: 1",
			"version: 1\nstorage: {path: a}\nchains: {authorize: {steps: [{name: r, rules: [r.yaml]}]}, scan_output: {steps: "+
				"[{use: secrets}, {use: acme}]}}", 1) +
			"  acme: {kind: scanner, wasm: acme.wasm, digest: \"sha256:" + strings.Repeat("0", 64) + "\"}\n",
		"r.yaml":     "rules: [{id: a, tools: [x], effect: permit}]\n",
		"keys/token": "one",
	}
	load := func(name, old, new string) string {
		t.Helper()
		files := map[string]string{}
		for k, v := range base {
			files[k] = v
		}
		if name != "" && !strings.Contains(files[name], old) {
			t.Fatalf("%s has no %q", name, old)
		}
		if name != "" {
			files[name] = strings.Replace(files[name], old, new, 1)
		}
		return inMemory(t, files, "PW=x").Hash()
	}
	first := load("", "", "")
	if len(first) != 20 || !strings.HasPrefix(first, "pol_") {
		t.Errorf("the hash is %s", first)
	}
	for _, same := range [][3]string{
		{"", "", ""}, {"yett.yaml", "path: a", "path: b"}, {"yett.yaml", "acme.wasm", "moved/acme.wasm"},
		{"yett.yaml", "storage:", "server: {drain: 1s}\nstorage:"}, {"keys/token", "one", "two"},
		{"yett.yaml", "storage:", "# a comment\nstorage:"}, {"yett.yaml", "storage:", "limits: {depth: 65}\nstorage:"}, {"r.yaml", "\n", "\n# comment\n"}, {"r.yaml", "[x]", "[ \"x\" ]"},
		{"yett.yaml", "storage:", "console: {listen: \"127.0.0.1:1\"}\nstorage:"}, {"yett.yaml", "storage:", "audit: {args: full}\nstorage:"},
	} {
		if got := load(same[0], same[1], same[2]); got != first {
			t.Errorf("%v changed the hash", same)
		}
	}
	for _, other := range [][3]string{
		{"r.yaml", "permit", "deny"}, {"r.yaml", "effect", "reason: because, effect"}, {"yett.yaml", "12345e67", "12345e68"}, {"yett.yaml", "true", `"true"`},
		{"yett.yaml", "name: r", "name: q"}, {"yett.yaml", "sha256:0", "sha256:1"},
		{"yett.yaml", "{use: secrets}, {use: acme}", "{use: acme}, {use: secrets}"}, {"yett.yaml", "${file:keys/token}", "${env:PW}"},
	} {
		if got := load(other[0], other[1], other[2]); got == first {
			t.Errorf("%v did not change the hash", other)
		}
	}
}

func TestExplain(t *testing.T) {
	src := Sources{File: "yett.yaml", Files: map[string][]byte{
		"yett.yaml": []byte("version: 1\nlimits:\n  depth: 9\nchains:\n  authorize:\n    steps:\n      - {name: r, rules: " +
			"[r.yaml]}\n"),
		"r.yaml": []byte("rules: [{id: a, tools: [x], effect: permit}]\n"),
	}, Env: []string{"YETT__LIMITS__NAME=99"}, Flags: map[string]any{"server.drain": 90 * time.Second}}
	c, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ key, value, origin string }{
		{"limits.depth", "9", "yett.yaml:3:10"},
		{"limits.name", "99", "env YETT__LIMITS__NAME"},
		{"server.drain", "1m30s", "flag server.drain"},
		{"limits.idle", "1m", "default"},
		{"chains.authorize.steps[0].name", "r", "yett.yaml:7:16"},
		{"chains.authorize.steps[0].on_error", "deny", "default"},
		{"chains.authorize.steps[0].rules", "chains.authorize.steps[0].rules[0]: r.yaml", "yett.yaml:7:26"},
		{"defers", "defers.ttl: 5m\ndefers.approved_ttl: 5m\ndefers.max_ttl: 30d", "default"},
		{"storage.path", "", "default"},
	} {
		value, origin, err := c.Explain(tt.key)
		if err != nil || value != tt.value || origin != tt.origin {
			t.Errorf("%s: %q, %q, %v; want %q, %q", tt.key, value, origin, err, tt.value, tt.origin)
		}
	}
	if _, _, err := c.Explain("limits.dept"); err == nil ||
		!strings.Contains(err.Error(), `did you mean "limits.depth"?`) {
		t.Errorf("an unknown key: %v", err)
	}
}

func TestDiff(t *testing.T) {
	before := inMemory(t, map[string]string{"yett.yaml": "version: 1\nplugins: {a: {kind: scanner, builtin: pii, " +
		"config: {token: one}}}\n"})
	after := inMemory(t, map[string]string{"yett.yaml": "version: 1\nserver: {listen: 127.0.0.1:1}\nplugins: {a: " +
		"{kind: scanner, builtin: pii, config: {x: 1}}}\n"})
	got := fmt.Sprint(before.Diff(after))
	want := `[{server.listen 127.0.0.1:8420 127.0.0.1:1 true} {plugins.a.config.x  1 false} {plugins.a.config.token "***"  false}]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if d := before.Diff(before); len(d) != 0 {
		t.Errorf("a configuration differs from itself: %v", d)
	}
}

func TestRulesAreLoaded(t *testing.T) {
	c, err := Load(Sources{File: "testdata/full.good.yaml", Builtins: builtins})
	if err != nil {
		t.Fatal(err)
	}
	step := c.Chains.Authorize.Steps[0]
	if len(step.Rules) != 1 || len(step.Rules[0].Rules) != 4 {
		t.Fatalf("loaded %+v", step.Rules)
	}
	got := fmt.Sprintf("%+v", step.Rules[0].Rules[1])
	want := `{ID:big-payments Tools:[payments/**] Agents:[billing-*] When:args.amount > 1000 Effect:defer Code:BIG_PAYMENT ` +
		`Reason:payments above 1000 need two people Message:Asked two people; try again later.` + "\n" +
		` Priority: Approvals:{N:2 From:[]} Expires:10m Rates:[] Budgets:[] Loops:[] Pos:testdata/rules/house.yaml:3:5}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if d := step.Timeout.Std(); d != 100*time.Millisecond {
		t.Errorf("a rules step without a timeout has %v, not the budget", d)
	}
	scan := c.Chains.ScanOutput
	if d := scan.Steps[1].Timeout.Std(); d != 20*time.Millisecond {
		t.Errorf("a step without a timeout has %v, not its plugin's", d)
	}
	if n := len(scan.Actions); n != 4 || scan.Actions[3].Action != "flag" || !scan.Actions[3].CatchAll() {
		t.Errorf("the actions do not end in {action: flag}: %+v", scan.Actions)
	}
	if name, orHigher := scan.Actions[1].MinSeverity(); name != "high" || !orHigher {
		t.Errorf(">=high reads as %s, %v", name, orHigher)
	}
	if p := c.Plugins["entitle"]; p.Isolation != IsolationReset || c.Plugins["secrets"].Isolation != IsolationPooled ||
		p.Wasm != "testdata/module.wasm" {
		t.Errorf("defaults of plugins: %+v", p)
	}
	want = "[testdata/api-token.txt testdata/full.good.yaml testdata/rules/house.yaml]"
	if got := fmt.Sprint(c.Files()); got != want {
		t.Errorf("files %s, want %s", got, want)
	}
}

func TestLimitsAreLoaded(t *testing.T) {
	c, err := Load(Sources{File: "testdata/limits.good.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	rules := c.Chains.Authorize.Steps[0].Rules[0].Rules
	for i, want := range []string{
		"high {N:0 From:[]} [{Limit:10 Window:1m Per:agent}] [{Amount:args.amount Limit:1000.50 Window:1h Per:session} " +
			"{Amount: args.amount  Limit:5000 Window:1d Per:agent} {Amount:has(args.fee) ? args.fee : 0 Limit:0.01 " +
			"Window:366d Per:key}] [{Limit:3 Window:1m}]",
		"low {N:2 From:[key:alice key:Bob's phone role:operator]} [{Limit:1 Window:1s Per:session} {Limit:1000000000 " +
			"Window:1d Per:key}] [] " +
			"[{Limit:1 Window:10s} {Limit:5 Window:1h}]",
		" {N:1 From:[role:approver]} [] [] []",
		" {N:3 From:[]} [] [] []",
		"medium {N:0 From:[]} [] [] []",
	} {
		u := rules[i]
		if got := fmt.Sprintf("%s %+v %+v %+v %+v", u.Priority, u.Approvals, u.Rates, u.Budgets, u.Loops); got != want {
			t.Errorf("rule %s: got  %s\nwant %s", u.ID, got, want)
		}
	}
}

func TestPrintReadsBack(t *testing.T) {
	for _, file := range []string{"testdata/full.good.yaml", "testdata/processes.good.yaml"} {
		t.Run(filepath.Base(file), func(t *testing.T) { printReadsBack(t, file) })
	}
}

func printReadsBack(t *testing.T, file string) {
	first, err := Load(Sources{File: file, Builtins: builtins})
	if err != nil {
		t.Fatal(err)
	}
	for _, defaults := range []bool{false, true} {
		var out bytes.Buffer
		if err := first.Print(&out, defaults); err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(out.String(), "${file:api-token.txt}", "${file:testdata/api-token.txt}")
		again, err := Load(Sources{File: "printed.yaml", Files: map[string][]byte{"printed.yaml": []byte(text)}})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, d := range first.Diff(again) {
			if d.Key != "plugins.acme-ids.config.api_token" {
				t.Errorf("defaults=%v: %+v", defaults, d)
			}
		}
	}
}

func TestFilesOnDisk(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	main := write("yett.yaml", "version: 1\nstorage: {path: data}\n")
	drop := write("conf.d/10-limits.yaml", "limits: {depth: 9}\nserver: {tls: {cert: c.pem, key: ../k.pem}}\n")
	write("conf.d/10-limits.yaml.orig", "not: [read")
	c, err := Load(Sources{File: main, Serve: true})
	if err != nil {
		t.Fatal(err)
	}
	if c.Limits.Depth != 9 || string(c.Storage.Path) != filepath.Join(dir, "data") ||
		string(c.Server.TLS.Cert) != filepath.Join(dir, "conf.d/c.pem") ||
		string(c.Server.TLS.Key) != filepath.Join(dir, "k.pem") {
		t.Errorf("%+v %+v", c.Storage, c.Server)
	}
	if got := c.Files(); len(got) != 2 || got[0] != drop || got[1] != main {
		t.Errorf("files %v", got)
	}
	if err := os.Mkdir(filepath.Join(dir, "conf.d/20.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Sources{File: main}); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a directory in conf.d: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "conf.d/20.yaml")); err != nil {
		t.Fatal(err)
	}
	big := write("conf.d/25.YAML", "limits: {depth: 8}\n")
	if _, err := Load(Sources{File: main}); err == nil || !strings.Contains(err.Error(), "25.YAML: is not read") {
		t.Errorf("a file whose name ends in capitals: %v", err)
	}
	if err := os.Remove(big); err != nil {
		t.Fatal(err)
	}
	write("conf.d/30.yaml", "# "+strings.Repeat("x", strict.MaxFile))
	if _, err := Load(Sources{File: main}); err == nil || !strings.Contains(err.Error(), "is larger than 1MiB") {
		t.Errorf("a huge file: %v", err)
	}
	if _, err := Load(Sources{File: filepath.Join(dir, "none.yaml")}); err == nil ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("no main file: %v", err)
	}
}

func TestAReplacedListLeavesNoOrigins(t *testing.T) {
	c := inMemory(t, map[string]string{
		"yett.yaml": "version: 1\nplugins: {secrets: {kind: scanner, builtin: secrets}}\nchains: {scan_output: {steps: " +
			"[{use: secrets, mode: enforce}]}}\n",
	}, "YETT__CHAINS__SCAN_OUTPUT__STEPS=[{use: secrets}]")
	for key, want := range map[string]string{"mode": "default", "use": "env YETT__CHAINS__SCAN_OUTPUT__STEPS"} {
		if _, origin, err := c.Explain("chains.scan_output.steps[0]." + key); err != nil || origin != want {
			t.Errorf("%s comes from %s, want %s (%v)", key, origin, want, err)
		}
	}
}

func TestErrorsAreCapped(t *testing.T) {
	text := "version: 1\nlimits:\n"
	for i := range 3000 {
		text += fmt.Sprintf("  wrong_%d: 1\n", i)
	}
	_, err := Load(Sources{File: "yett.yaml", Files: map[string][]byte{"yett.yaml": []byte(text)}})
	if err == nil || strings.Count(err.Error(), "\n") != 20 ||
		!strings.HasSuffix(err.Error(), "and 2980 more problems") {
		t.Errorf("%v", err)
	}
}

func TestManyRulesAreCheckedAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("ten thousand rules")
	}
	var b strings.Builder
	b.WriteString("rules:\n")
	const n = 10000
	for i := range n {
		fmt.Fprintf(&b, "  - {id: r%d, tools: [\"t%d/**\"], effect: permit}\n", i, i)
	}
	b.WriteString("  - {id: last, tools: [\"t77/x/*\"], effect: deny}\n")
	c := inMemory(t, map[string]string{"yett.yaml": "version: 1\nchains: {authorize: {steps: [{name: r, rules: " +
		"[r.yaml]}]}}\n", "r.yaml": b.String()})
	problems := c.Check()
	if len(c.Chains.Authorize.Steps[0].Rules[0].Rules) != n+1 || len(problems) != 1 || problems[0].Key != "rule last" {
		t.Errorf("%d rules, %v", len(c.Chains.Authorize.Steps[0].Rules[0].Rules), problems)
	}
}

// TestHanded: what a plugin is handed in secret is what its settings and secrets refer to, and settings that look like
// a secret.
func TestHanded(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "of-file-a\n", "b": "of-file-b\n",
		"yett.yaml": "version: 1\nplugins:\n  p:\n    kind: authorizer\n    exec: /bin/p\n    digest: sha256:" +
			strings.Repeat("0", 64) + "\n    secrets: {two: {env: TWO}, one: {file: b}}\n" +
			"    config: {plain: text, list: [\"Bearer ${file:a}, ${env:TWO}\"], own: {api_key: in-clear}, \"od\\\"d\": " +
			"\"$${no}\"}\n" +
			"chains: {authorize: {steps: [{use: p}]}}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := Load(Sources{File: filepath.Join(dir, "yett.yaml"), Env: []string{"TWO=of-env-two"}})
	if err != nil {
		t.Fatal(err)
	}
	p := cfg.Plugins["p"]
	got := map[Secret]bool{}
	for _, s := range p.Handed("p") {
		got[s] = true
	}
	want := map[Secret]bool{{Key: "plugins.p.config.list[0]", Value: "of-file-a"}: true,
		{Key: "plugins.p.config.list[0]", Value: "of-env-two"}: true, {Key: "plugins.p.config.own.api_key", Value: "in-clear"}: true,
		{Key: "plugins.p.secrets.one", Value: "of-file-b"}: true, {Key: "plugins.p.secrets.two", Value: "of-env-two"}: true}
	if !maps.Equal(got, want) {
		t.Errorf("%d of %d", len(got), len(want))
		for _, s := range p.Handed("p") {
			t.Error(s.Key, s.Value)
		}
	}
	if printed := fmt.Sprintf("%v %+v %#v", p, p.Handed("p"), p.Handed("p")); strings.Contains(printed, "of-file") ||
		strings.Contains(printed, "in-clear") {
		t.Errorf("printing shows them: %s", printed)
	}
}
