// Command secrets is a scanner that finds credentials: tokens that carry their issuer's mark, values assigned to names
// that speak of a secret, private keys, and passwords in URLs, headers and manifests. Text comes from the host or from
// standard input; findings are spans of it, each the whole secret. It keeps nothing between texts and needs no regular
// expressions: a trigger's hit leads to a small matcher around it.
package main

import (
	"errors"
	"slices"

	"github.com/yett-dev/yett/sdk/scanner"
)

func init() { scanner.Register(spec) }
func main() { scanner.Main() }

var rules = newEngine()

var spec = scanner.Spec{
	Name:       "secrets",
	Version:    "1.0.0",
	Kinds:      kinds(),
	Triggers:   rules.triggers,
	Stream:     scanner.StreamWindow,
	Lookbehind: maxSpan,
	Config:     schema,
	Init:       configure,
	Scan:       scanText,
}

const schema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"disable":{"type":"array","items":{"type":"string","pattern":"^SECRET_[A-Z0-9_]+$"},"description":"kinds that are not reported"},` +
	`"min_entropy":{"type":"number","minimum":0,"maximum":8,"description":"bits per byte that a value needs for SECRET_GENERIC; default 3.5"}}}`

// settings is the operator's configuration.
type settings struct {
	disabled   map[string]bool
	minEntropy int // hundredths of a bit
}

const defaultEntropy = 350

var config = settings{minEntropy: defaultEntropy}

func configure(doc []byte) error {
	c := settings{minEntropy: defaultEntropy, disabled: map[string]bool{}}
	known := kinds()
	err := scanner.Members(doc, func(name string, v scanner.Value) error {
		switch name {
		case "disable":
			list, err := v.Strings()
			if err != nil {
				return errors.New("disable: " + err.Error())
			}
			for _, k := range list {
				if !slices.ContainsFunc(known, func(have scanner.Kind) bool { return have.Name == k }) {
					return errors.New("disable: unknown kind " + k)
				}
				c.disabled[k] = true
			}
		case "min_entropy":
			bits, err := v.Float()
			if err != nil {
				return errors.New("min_entropy: " + err.Error())
			}
			if !(bits >= 0 && bits <= 8) {
				return errors.New("min_entropy: must be between 0 and 8")
			}
			c.minEntropy = int(bits * 100)
		default:
			return errors.New(name + ": unknown key; known are disable and min_entropy")
		}
		return nil
	})
	if err == nil {
		config = c
	}
	return err
}

// kinds lists every kind of the tables once, by name, with the severity of its first rule.
func kinds() []scanner.Kind {
	severity := map[string]scanner.Severity{"GENERIC": high, "PASSWORD": high, exampleKind: scanner.Low}
	add := func(kind string, s scanner.Severity) {
		if _, known := severity[kind]; !known {
			severity[kind] = s
		}
	}
	for _, r := range tokenRules {
		add(r.kind, r.severity)
	}
	for _, r := range vendorRules {
		add(r.kind, r.severity)
	}
	for _, r := range specials {
		for _, k := range r.kinds {
			add(k, r.severity)
		}
	}
	list := make([]scanner.Kind, 0, len(severity))
	for k, s := range severity {
		list = append(list, scanner.Kind{Name: "SECRET_" + k, Severity: s})
	}
	slices.SortFunc(list, func(a, b scanner.Kind) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}
