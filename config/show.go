package config

import (
	"fmt"
	"io"
	"slices"

	"github.com/yett-dev/yett/config/strict"
)

// What stands in the reference file before the keys, and before those of a rules file.
const (
	head = "# Every key of Yett's configuration with its default. Keys in comments have none: the value shown is an " +
		"example.\n" +
		"# Sizes and durations have units (64KiB, 1MiB; 50ms, 10s, 1h30m, 30d). Unknown keys are errors.\n"
	rulesHead = "\n# A rules file, as steps of chains.authorize name them:\n"
)

// Print writes the configuration as YAML that reads back to the same, secrets as they are referred to and those written
// out masked as "***". With defaults it writes every key with its documentation; without, only what some source set.
// The reference file yett.yaml is what Default().Print(w, true) writes.
func (c *Config) Print(w io.Writer, defaults bool) error {
	text := strict.Print(*c, c.origins, defaults)
	if defaults {
		text = slices.Concat([]byte(head), text, []byte(rulesHead), strict.Example(rulesFile{}))
	}
	_, err := w.Write(text)
	return err
}

// Schema gives the JSON Schema (2020-12) of a configuration file, for editors. It describes keys, types, choices and
// limits; what keys mean together is checked by Load and Check only.
func Schema() []byte { return strict.Schema(Config{}, "Yett configuration") }

// Explain gives the value in effect of a key, such as "limits.depth" or "chains.authorize.steps[0].use", and where it
// was set: "file:line:column", "env NAME", "flag NAME" or "default". For a section it gives a line for each value in
// it. Secrets are not shown. An unknown key is an error.
func (c *Config) Explain(key string) (value, origin string, err error) {
	return strict.Explain(*c, c.origins, key)
}

// Where is the place at which key, or the nearest thing around it, was written.
func (c *Config) Where(key string) Pos { return c.origins.At(key) }

// Written reports whether a setting was given anywhere, rather than being the default.
func (c *Config) Written(key string) bool { return c.origins.Written(key) }

// Diff lists what differs from c to next, in the order of the reference file, then of what only c has. Secrets are not
// shown. Rules files count by their digests.
func (c *Config) Diff(next *Config) []Change { return strict.Diff(c.withRules(), next.withRules()) }

func (c *Config) withRules() []strict.Setting {
	out := strict.Settings(*c, true)
	for i, step := range c.Chains.Authorize.Steps {
		for j, set := range step.Rules {
			out = append(out, strict.Setting{Key: fmt.Sprintf("chains.authorize.steps[%d].rules[%d] content", i, j),
				Text: set.Digest})
		}
	}
	return out
}
