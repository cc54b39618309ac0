package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/yett-dev/yett/sdk/plugin"
)

// The bounds of the settings. Those of the schema (schema.go) are the same.
const (
	maxPolicyText = 256 << 10 // bytes of policy
	maxPaths      = 64
	maxNames      = 64
	minReload     = 100 * time.Millisecond
	maxReload     = time.Hour
)

// config is what the operator writes. README.md says what each member means.
type config struct {
	Policy        string   `json:"policy"`
	Bundle        string   `json:"bundle"`
	Paths         []string `json:"paths"`
	Decision      string   `json:"decision"`
	OnUndefined   string   `json:"on_undefined"`
	BuiltinErrors string   `json:"builtin_errors"`
	AllowBuiltins []string `json:"allow_builtins"`
	AllowHosts    []string `json:"allow_hosts"`
	Reload        string   `json:"reload"`
	Verify        *verify  `json:"verify"`

	every    time.Duration // Reload; 0 is never
	decision ast.Ref       // Decision
}

// verify is whose signature a bundle must carry.
type verify struct {
	PublicKey string `json:"public_key"` // PEM
	Algorithm string `json:"algorithm"`
	KeyID     string `json:"key_id"`
	Scope     string `json:"scope"`
}

// The values of on_undefined and builtin_errors.
const (
	deny      = "deny"
	abstain   = "abstain"
	fail      = "fail"
	undefined = "undefined"
)

// defaults is config where the operator wrote nothing.
func defaults() config {
	return config{Decision: "data.yett.authz.decision", OnUndefined: deny, BuiltinErrors: fail, Reload: "10s"}
}

// parse reads the settings and checks all that can be checked without opening a file.
func parse(s plugin.Settings) (*config, error) {
	c := defaults()
	if err := s.Decode(&c); err != nil {
		return nil, err
	}
	var ps plugin.Problems
	add := func(field, format string, a ...any) {
		ps = append(ps, plugin.Problem{Field: field, Message: fmt.Sprintf(format, a...)})
	}
	c.checkSource(add)
	c.checkDecision(add)
	c.checkBuiltins(add)
	c.checkReload(add)
	if len(ps) > 0 {
		return nil, ps
	}
	return &c, nil
}

type addProblem func(field, format string, a ...any)

func (c *config) checkSource(add addProblem) {
	n := 0
	for _, given := range []bool{c.Policy != "", c.Bundle != "", len(c.Paths) > 0} {
		if given {
			n++
		}
	}
	if n != 1 {
		add("", "exactly one of policy, bundle and paths must be given")
	}
	if len(c.Policy) > maxPolicyText {
		add("/policy", "%d bytes; at most %d: use bundle", len(c.Policy), maxPolicyText)
	}
	if c.Bundle != "" && !filepath.IsAbs(c.Bundle) {
		add("/bundle", "not an absolute path")
	}
	if len(c.Paths) > maxPaths {
		add("/paths", "%d entries; at most %d", len(c.Paths), maxPaths)
	}
	for i, p := range c.Paths {
		if !filepath.IsAbs(p) {
			add(fmt.Sprintf("/paths/%d", i), "not an absolute path")
		}
	}
	if c.Verify != nil {
		c.checkVerify(add)
	}
}

// Only public keys: a shared secret would have to stand in the settings.
var algorithms = regexp.MustCompile(`^(ES|PS|RS)(256|384|512)$`)

func (c *config) checkVerify(add addProblem) {
	if c.Bundle == "" {
		add("/verify", "only a bundle is signed")
	}
	if !strings.Contains(c.Verify.PublicKey, "-----BEGIN ") {
		add("/verify/public_key", "not a public key in PEM form")
	}
	if c.Verify.Algorithm == "" {
		c.Verify.Algorithm = "RS256"
	}
	if !algorithms.MatchString(c.Verify.Algorithm) {
		add("/verify/algorithm", "%q; one of ES256 ES384 ES512 PS256 PS384 PS512 RS256 RS384 RS512", c.Verify.Algorithm)
	}
	if c.Verify.KeyID == "" {
		c.Verify.KeyID = "yett"
	}
}

func (c *config) checkDecision(add addProblem) {
	ref, err := ast.ParseRef(c.Decision)
	if err != nil || len(ref) < 2 || !ref[0].Equal(ast.DefaultRootDocument) || !ref.IsGround() {
		add("/decision", "not the path of a document under data, such as data.yett.authz.decision")
	}
	c.decision = ref
	if c.OnUndefined != deny && c.OnUndefined != abstain {
		add("/on_undefined", "%q; one of deny and abstain", c.OnUndefined)
	}
	if c.BuiltinErrors != fail && c.BuiltinErrors != undefined {
		add("/builtin_errors", "%q; one of fail and undefined", c.BuiltinErrors)
	}
}

func (c *config) checkBuiltins(add addProblem) {
	if len(c.AllowBuiltins) > maxNames || len(c.AllowHosts) > maxNames {
		add("/allow_builtins", "at most %d names here and in allow_hosts", maxNames)
	}
	for i, name := range c.AllowBuiltins {
		if !switchedOff[name] {
			add(fmt.Sprintf("/allow_builtins/%d", i),
				"%q is not one of those that are off: http.send net.lookup_ip_addr opa.runtime", name)
		}
	}
	for i, h := range c.AllowHosts {
		if h == "" {
			add(fmt.Sprintf("/allow_hosts/%d", i), "empty")
		}
	}
}

func (c *config) checkReload(add addProblem) {
	d, err := time.ParseDuration(c.Reload)
	if err != nil || d != 0 && (d < minReload || d > maxReload) {
		add("/reload", "%q; a duration with a unit from %v to %v, or 0s for never", c.Reload, minReload, maxReload)
	}
	c.every = d
	if c.Policy != "" {
		c.every = 0
	}
}
