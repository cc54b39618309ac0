package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config/strict"
)

// decidingPlugin are the keys of a plugin that policy_version counts; restPlugin those that it does not. A new key
// belongs to one of them: whoever adds it decides which.
var (
	decidingPlugin = []string{"kind", "builtin", "connect", "digest", "config", "env", "limits.timeout", "cache.entries",
		"cache.max_ttl"}
	restPlugin = []string{"wasm", "exec", "sandbox", "isolation", "limits.", "secrets.", "user.", "peer.", "breaker.",
		"paths.", "network", "confine"}
)

func wantsHash(t *testing.T, key string) bool {
	switch section, rest, _ := strings.Cut(key, "."); section {
	case "chains":
		return !strings.Contains(key, ".rules[") // the paths of rules files; what is in them counts apart
	case "plugins":
		name, member, _ := strings.Cut(rest, ".")
		if name == "siem" || name == "idle" {
			return false
		}
		if slices.Contains(decidingPlugin, member) {
			return true
		}
		if !slices.ContainsFunc(restPlugin, func(k string) bool {
			return member == k || strings.HasSuffix(k, ".") && strings.HasPrefix(member, k)
		}) {
			t.Errorf("%s: does it change answers? Put it into decidingPlugin (and pluginDecides) or restPlugin", key)
		}
	}
	return false
}

// Every key that decides changes the policy_version, and no other does: each value of a configuration is changed in
// turn.
func TestHashCountsWhatDecides(t *testing.T) {
	c := inMemory(t, map[string]string{"yett.yaml": `version: 1
storage: {path: a}
server: {listen: "127.0.0.1:1"}
console: {listen: "127.0.0.1:2"}
trust: {keys: {acme: {minisign: "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"}}}
plugins:
  entitle: {kind: authorizer, exec: entitle, digest: "sha256:` + strings.Repeat("0", 64) + `", config: {a: 1}, env: {A: b}, cache: {entries: 5}}
  secrets: {kind: scanner, builtin: secrets}
  idle: {kind: scanner, builtin: pii}
  siem: {kind: subscriber, exec: siem, digest: "sha256:` + strings.Repeat("0", 64) + `"}
chains:
  authorize: {steps: [{name: r, rules: [r.yaml]}, {use: entitle, match: {tools: ["pay/*"], agents: [a], sessions: [s]}}]}
  scan_output:
    steps: [{use: secrets, match: {tools: ["files/*"]}}]
    actions: [{kinds: ["SECRET_*"], scanners: [secrets], tools: ["*"], severity: high, min_confidence: 0.5, action: redact, replacement: x}]
audit: {subscribers: [{use: siem, types: [decision]}]}
`, "r.yaml": "rules: [{id: a, tools: [x], effect: defer, approvals: {n: 2, from: [role:operator]}, rate: {limit: 1, window: 1m, per: agent}}]\n"})
	first, seen := c.Hash(), 0
	other := inMemory(t, map[string]string{"yett.yaml": "version: 1\nplugins: {a: {kind: scanner, builtin: pii, config: " +
		"{changed: x}}}\n"}).Plugins["a"].Config
	eachValue(reflect.ValueOf(c).Elem(), "", other, func(key string) {
		seen++
		if changed := c.Hash() != first; changed != wantsHash(t, key) {
			t.Errorf("%s: a change of it changes policy_version: %v, want %v", key, changed, !changed)
		}
	})
	if c.Hash() != first {
		t.Error("the walk did not put everything back")
	}
	if seen < 120 {
		t.Errorf("only %d values were changed", seen)
	}
	rule := &c.Chains.Authorize.Steps[0].Rules[0].Rules[0]
	eachValue(reflect.ValueOf(rule).Elem(), "", other, func(key string) {
		if c.Hash() == first {
			t.Errorf("%s of a rule does not change policy_version", key)
		}
	})
}

// eachValue changes every value below v in turn, calls fn, and puts it back. other are free settings unlike those of v.
func eachValue(v reflect.Value, key string, other Values, fn func(key string)) {
	switch {
	case v.Type() == valuesType:
		before := v.Interface()
		v.Set(reflect.ValueOf(other))
		fn(key)
		v.Set(reflect.ValueOf(before))
	case isSection(v.Type()):
		for _, f := range keyed(v.Type()) {
			eachValue(v.FieldByIndex(f.Index), strict.Join(key, f.Tag.Get("koanf")), other, fn)
		}
	case v.Kind() == reflect.Slice && v.Type().Elem() != reflect.TypeFor[RuleSet]():
		for i := range v.Len() {
			eachValue(v.Index(i), key+"["+string(rune('0'+i))+"]", other, fn)
		}
	case v.Kind() == reflect.Map:
		for _, name := range v.MapKeys() {
			before := v.MapIndex(name)
			entry := reflect.New(before.Type()).Elem()
			entry.Set(before)
			eachValue(entry, strict.Join(key, name.String()), other, func(at string) { v.SetMapIndex(name, entry); fn(at) })
			v.SetMapIndex(name, before)
		}
	case v.CanSet() && v.Kind() != reflect.Slice:
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Float64:
			v.SetFloat(v.Float() + 0.125)
		default:
			v.SetInt(v.Int() + 1)
		}
		fn(key)
		v.Set(before)
	}
}
