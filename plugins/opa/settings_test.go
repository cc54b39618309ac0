package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
	"github.com/yett-dev/yett/sdk"
)

func TestSettingsRefused(t *testing.T) {
	const module = "package yett.authz\n\ndecision := true\n"
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good, bad := write("good.rego", module), write("bad.rego", "package yett.authz\n\ndecision := ")
	for name, c := range map[string]struct {
		config any
		want   string
	}{
		"nothing":          {map[string]any{}, "exactly one of policy, bundle and paths"},
		"two sources":      {map[string]any{"policy": module, "bundle": dir}, "exactly one of policy, bundle and paths"},
		"unknown member":   {map[string]any{"policy": module, "polcy": 1}, "polcy"},
		"relative bundle":  {map[string]any{"bundle": "b"}, "/bundle: not an absolute path"},
		"relative path":    {map[string]any{"paths": []string{good, "x.rego"}}, "/paths/1: not an absolute path"},
		"no such bundle":   {map[string]any{"bundle": filepath.Join(dir, "none")}, "no such file"},
		"not a bundle":     {map[string]any{"bundle": good}, "no directory and no .tar.gz"},
		"a foreign file":   {map[string]any{"paths": []string{write("x.txt", "")}}, "neither .rego nor .json nor .yaml"},
		"same file twice":  {map[string]any{"paths": []string{good, good}}, "two files are /good.rego"},
		"bad policy":       {map[string]any{"paths": []string{bad}}, "rego_parse_error"},
		"a device":         {map[string]any{"paths": []string{write("d.rego", module), "/dev/zero"}}, "/dev/zero"},
		"no such decision": {map[string]any{"policy": module, "decision": "data.yett.authz.decison"}, "nothing in the policies defines data.yett.authz.decison"},
		"a query":          {map[string]any{"policy": module, "decision": "x = data.yett"}, "/decision: not the path of a document"},
		"input":            {map[string]any{"policy": module, "decision": "input.args.allow"}, "/decision: not the path of a document"},
		"all of data":      {map[string]any{"policy": module, "decision": "data"}, "/decision: not the path of a document"},
		"a variable":       {map[string]any{"policy": module, "decision": "data.yett[x].decision"}, "/decision: not the path of a document"},
		"permit undefined": {map[string]any{"policy": module, "on_undefined": "permit"}, "/on_undefined"},
		"builtin_errors":   {map[string]any{"policy": module, "builtin_errors": "ignore"}, "/builtin_errors"},
		"reload too often": {map[string]any{"policy": module, "reload": "1ms"}, "/reload"},
		"reload unitless":  {map[string]any{"policy": module, "reload": "10"}, "/reload"},
		"unknown builtin":  {map[string]any{"policy": module, "allow_builtins": []string{"net.cidr_contains"}}, "/allow_builtins/0"},
		"verify no bundle": {map[string]any{"policy": module, "verify": map[string]any{"public_key": "-----BEGIN "}}, "/verify: only a bundle is signed"},
		"shared secret":    {map[string]any{"bundle": dir, "verify": map[string]any{"public_key": "-----BEGIN ", "algorithm": "HS256"}}, "/verify/algorithm"},
		"no key":           {map[string]any{"bundle": dir, "verify": map[string]any{"public_key": "x"}}, "/verify/public_key"},
		"long policy":      {map[string]any{"policy": strings.Repeat("#", maxPolicyText+1)}, "/policy: 262145 bytes; at most 262144"},
		"many paths":       {map[string]any{"paths": make([]string, maxPaths+1)}, "/paths: 65 entries; at most 64"},
	} {
		t.Run(name, func(t *testing.T) {
			policytest.Refuses(t, newAuthorizer(), c.config, c.want)
		})
	}
}

// What reaches out of the evaluation is off unless it is switched on, and a schema's references reach no host.
func TestBuiltinsThatReachOut(t *testing.T) {
	for _, c := range []struct{ rule, allow string }{
		{`decision if http.send({"method": "GET", "url": "http://127.0.0.1:1"}).status_code == 200`, "http.send"},
		{`decision if net.lookup_ip_addr("localhost")`, "net.lookup_ip_addr"},
		{`decision if opa.runtime().env.HOME`, "opa.runtime"},
	} {
		m := authz(c.rule)
		if err := newAuthorizer().Validate(t.Context(), policytest.Settings(t, m)); err == nil ||
			!strings.Contains(err.Error(), "undefined function "+c.allow) {
			t.Errorf("%s: %v; want it to be unknown", c.allow, err)
		}
		m["allow_builtins"] = []string{c.allow}
		if err := newAuthorizer().Validate(t.Context(), policytest.Settings(t, m)); err != nil {
			t.Errorf("%s switched on: %v", c.allow, err)
		}
	}
	// Even when http.send is on, it reaches the hosts of allow_hosts only; opa.runtime knows no environment.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan struct{}, 8)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			c.Close()
		}
	}()
	for _, rule := range []string{
		fmt.Sprintf(`decision if http.send({"method": "GET", "url": "http://%s/"}).status_code == 200`, l.Addr()),
		fmt.Sprintf(`decision if json.match_schema({}, {"$ref": "http://%s/schema.json"})[0]`, l.Addr()),
		`decision if opa.runtime().env.PATH`,
	} {
		m := authz(rule)
		m["allow_builtins"] = []string{"http.send", "opa.runtime"}
		if v, err := configured(t, m).Check(t.Context(), call(`{}`)); v.Effect == sdk.Permit {
			t.Errorf("%s: %+v, %v", rule, v, err)
		}
	}
	l.Close()
	<-done
	if len(accepted) > 0 {
		t.Error("a policy reached a host that allow_hosts does not name")
	}
	if v, err := configured(t, authz(`decision if net.cidr_contains("10.0.0.0/8", input.args.ip)`)).Check(t.Context(),
		call(`{"ip":"10.1.2.3"}`)); err != nil || v.Effect != sdk.Permit {
		t.Errorf("net.cidr_contains: %+v, %v", v, err)
	}
}

func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg}); err !=
			nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A bundle is the same as a directory, as an archive and as loose files.
func TestSources(t *testing.T) {
	files := map[string]string{
		"authz/p.rego":     "package yett.authz\n\nimport data.limits\n\ndecision := input.args.amount <= limits.max\n",
		"limits/data.json": `{"max": 100}`,
		"notes.txt":        "is of no account",
	}
	dir := t.TempDir()
	writeBundle(t, filepath.Join(dir, "b"), files)
	if err := os.WriteFile(filepath.Join(dir, "b.tar.gz"), archive(t, files), 0o600); err != nil {
		t.Fatal(err)
	}
	writeBundle(t, dir, map[string]string{"limits.yaml": "limits:\n  max: 100\n"})
	// The way a mounted ConfigMap looks: files are links into a directory whose name begins with two dots.
	mount := filepath.Join(dir, "mount")
	writeBundle(t, filepath.Join(mount, "..2026"),
		map[string]string{"p.rego": files["authz/p.rego"], "data.json": `{"limits":{"max":100}}`})
	for _, name := range []string{"p.rego", "data.json"} {
		if err := os.Symlink(filepath.Join("..2026", name), filepath.Join(mount, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("b", filepath.Join(dir, "current")); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]any{
		"link":      map[string]any{"bundle": filepath.Join(dir, "current")},
		"directory": map[string]any{"bundle": filepath.Join(dir, "b")},
		"archive":   map[string]any{"bundle": filepath.Join(dir, "b.tar.gz")},
		"paths":     map[string]any{"paths": []string{filepath.Join(dir, "b", "authz"), filepath.Join(dir, "limits.yaml")}},
		"mount":     map[string]any{"bundle": mount},
	} {
		t.Run(name, func(t *testing.T) {
			a := configured(t, config)
			for args, want := range map[string]sdk.Effect{`{"amount":100}`: sdk.Permit, `{"amount":100.01}`: sdk.Deny} {
				if v, err := a.Check(t.Context(), call(args)); err != nil || v.Effect != want {
					t.Errorf("%s: %+v, %v; want %v", args, v, err, want)
				}
			}
		})
	}
}

func TestSourceLimits(t *testing.T) {
	dir := t.TempDir()
	big := strings.Repeat("\n", maxBytes)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"a bomb":      {archive(t, map[string]string{"p.rego": big + "\n"}), "more than 67108864 bytes"},
		"no tar":      {archive(t, nil)[:10], "EOF"},
		"delta":       {archive(t, map[string]string{"patch.json": `{"data":[{"op":"upsert","path":"/a","value":1}]}`}), "delta bundle"},
		"compiled":    {archive(t, map[string]string{"policy.wasm": "x", "p.rego": "package yett.authz\n\ndecision := true\n"}), "compiled policies"},
		"bad data":    {archive(t, map[string]string{"data.json": "{"}), "bundle load failed on /data.json"},
		"unverified":  {archive(t, map[string]string{".signatures.json": `{"signatures":["x"]}`, "p.rego": "package yett.authz\n\ndecision := true\n"}), "verif"},
		"same twice":  {archive(t, map[string]string{"p.rego": "package a", "/p.rego": "package b"}), "two files are /p.rego"},
		"climbing up": {archive(t, map[string]string{"../../p.rego": "package yett.authz", "p.rego": "package b"}), "two files are /p.rego"},
	} {
		if testkit.Quick() && name == "a bomb" {
			continue // 64 MiB
		}
		t.Run(name, func(t *testing.T) {
			p := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			if err := os.WriteFile(p, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := newAuthorizer().Validate(t.Context(), policytest.Settings(t, map[string]any{"bundle": p})); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
	if testkit.Quick() { // more than ten thousand files
		return
	}
	many := filepath.Join(dir, "many")
	if err := os.Mkdir(many, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range maxFiles + 1 {
		if err := os.WriteFile(filepath.Join(many, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := newAuthorizer().Validate(t.Context(), policytest.Settings(t, map[string]any{"bundle": many})); err == nil ||
		!strings.Contains(err.Error(), "more than 10000 files") {
		t.Errorf("%v; want the limit of files", err)
	}
}

func TestSignedBundle(t *testing.T) {
	key, public := keyPair(t)
	_, other := keyPair(t)
	module := "package yett.authz\n\ndecision := true\n"
	sign := func(module string) map[string]string {
		b := bundle.Bundle{Modules: []bundle.ModuleFile{{Path: "/p.rego", URL: "/p.rego", Raw: []byte(module)}},
			Data: map[string]any{}}
		if err := b.GenerateSignature(bundle.NewSigningConfig(key, "ES256", ""), "yett", false); err != nil {
			t.Fatal(err)
		}
		sigs, err := json.Marshal(b.Signatures)
		if err != nil {
			t.Fatal(err)
		}
		// data.json and the manifest are part of what was signed.
		return map[string]string{"p.rego": module, "data.json": "{}", ".signatures.json": string(sigs)}
	}
	config := func(dir, public string) map[string]any {
		return map[string]any{"bundle": dir, "verify": map[string]any{"public_key": public, "algorithm": "ES256"}}
	}
	for name, c := range map[string]struct {
		change func(files map[string]string)
		public string
		ok     bool
	}{
		"as signed":     {func(map[string]string) {}, public, true},
		"changed":       {func(f map[string]string) { f["p.rego"] = strings.Replace(module, "true", "false", 1) }, public, false},
		"a file more":   {func(f map[string]string) { f["q.rego"] = "package q\n" }, public, false},
		"a file less":   {func(f map[string]string) { delete(f, "p.rego") }, public, false},
		"unsigned":      {func(f map[string]string) { delete(f, ".signatures.json") }, public, false},
		"another's key": {func(map[string]string) {}, other, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := sign(module)
			c.change(files)
			for n, text := range files {
				if err := os.WriteFile(filepath.Join(dir, n), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := newAuthorizer().Validate(t.Context(), policytest.Settings(t, config(dir, c.public)))
			if (err == nil) != c.ok {
				t.Errorf("validate: %v; want ok %v", err, c.ok)
			}
		})
	}
}

// keyPair is a private and its public key in PEM form.
func keyPair(t *testing.T) (private, public string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	priv, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: priv})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub}))
}

// The schema and parse agree on the example, and the schema refuses what parse refuses.
func TestSchema(t *testing.T) {
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(configSchema))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		exampleConfig:                              true,
		`{"bundle":"/b","reload":"0s"}`:            true,
		`{"bundle":"/b","on_undefined":"allow"}`:   false,
		`{"bundle":"/b","bundel":1}`:               false,
		`{"paths":[]}`:                             false,
		`{}`:                                       false,
		`{"policy":"package a","bundle":"/b"}`:     false,
		`{"bundle":"b"}`:                           false,
		`{"paths":["b"]}`:                          false,
		`{"bundle":"/b","decision":"input.x"}`:     false,
		`{"bundle":"/b","decision":"data[\"a\"]"}`: true,
		`{"bundle":"/b","reload":"1"}`:             false,
		`{"bundle":"/b","reload":"1m30.5s"}`:       true,
		`{"policy":"package a","verify":{"public_key":"-----BEGIN PUBLIC KEY-----"}}`: false,
		`{"bundle":"/b","verify":{"public_key":"-----BEGIN PUBLIC KEY-----"}}`:        true,
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != ok {
			t.Errorf("%.60s: %v; want ok %v", text, err, ok)
		}
	}
}
