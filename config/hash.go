package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// pluginDecides are the keys of a plugin that can change an answer: which code it is, its settings and environment, how
// long it may take, and for how long an answer of it stands. How it is run (sandbox, confinement, processes, memory,
// user) is not among them: a plugin that is hindered counts as its step's on_error says, which is part of the chain.
var pluginDecides = []string{"kind", "builtin", "connect", "digest", "config", "env", "limits.timeout", "cache"}

// Hash identifies what is decided by: "pol_" and the first 16 hex digits of a SHA-256 over the chains, the rules as
// they were understood, and of each plugin that a chain uses the keys in pluginDecides. All else has no part in it:
// addresses, paths, limits of requests, the console, the audit log and its subscribers, the values of secrets,
// comments. The same policy has the same hash on every machine. It is the policy_version of decisions.
func (c *Config) Hash() string {
	h := sha256.New()
	used := c.chainPlugins()
	for _, s := range strict.Settings(*c, false) {
		if !s.Place && decides(s.Key, used) {
			fmt.Fprintf(h, "%q=%q\n", s.Key, s.Text)
		}
	}
	for i, step := range c.Chains.Authorize.Steps {
		n := 0
		for _, set := range step.Rules { // files are read as one list
			for j := range set.Rules {
				for _, s := range strict.Settings(set.Rules[j], false) {
					fmt.Fprintf(h, "rule %d.%d %q=%q\n", i, n, s.Key, s.Text)
				}
				n++
			}
		}
	}
	return "pol_" + hex.EncodeToString(h.Sum(nil))[:16]
}

// chainPlugins are the names of the plugins that a chain uses.
func (c *Config) chainPlugins() map[string]bool {
	used := map[string]bool{}
	for _, s := range c.Chains.Authorize.Steps {
		used[s.Use] = true
	}
	for _, s := range c.Chains.ScanOutput.Steps {
		used[s.Use] = true
	}
	return used
}

// decides reports whether a value in effect can change an answer. used are the plugins of the chains.
func decides(key string, used map[string]bool) bool {
	section, rest, _ := strings.Cut(key, ".")
	switch section {
	case "chains":
		return true
	case "plugins":
		name, member, _ := strings.Cut(rest, ".")
		for _, k := range pluginDecides {
			if used[name] && (member == k || strings.HasPrefix(member, k+".") || strings.HasPrefix(member, k+"[")) {
				return true
			}
		}
	}
	return false
}
