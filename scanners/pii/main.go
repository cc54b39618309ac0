// Command pii is a scanner that finds personal data: e-mail addresses, telephone numbers, payment cards, bank accounts,
// national identifiers with their checksums, addresses and dates of birth. Text comes in through the host or through
// standard input; a finding is the span of one datum. It keeps nothing between texts and needs no regular expressions:
// a trigger's hit leads to small matchers around it, and words near a number raise or lower what it counts for.
package main

import (
	"errors"
	"slices"

	"github.com/yett-dev/yett/sdk/scanner"
)

func init() { scanner.Register(spec) }
func main() { scanner.Main() }

// maxSpan bounds a finding, in bytes; it is also the lookbehind of a stream.
const maxSpan = 512

var spec = scanner.Spec{
	Name:       "pii",
	Version:    "1.0.0",
	Kinds:      kindList(),
	Triggers:   triggerList(),
	Stream:     scanner.StreamWindow,
	Lookbehind: maxSpan,
	Config:     schema,
	Init:       configure,
	Scan:       scanText,
}

const schema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"disable":{"type":"array","items":{"type":"string","pattern":"^PII_[A-Z0-9_]+$"},` +
	`"description":"kinds that are not reported"},` +
	`"min_confidence":{"type":"number","minimum":0,"maximum":1,` +
	`"description":"findings of less confidence are not reported; default 0"}}}`

// settings is the operator's configuration.
type settings struct {
	disabled      map[string]bool
	minConfidence float32
}

var config settings

func configure(doc []byte) error {
	c := settings{disabled: map[string]bool{}}
	err := scanner.Members(doc, func(name string, v scanner.Value) error {
		switch name {
		case "disable":
			list, err := v.Strings()
			if err != nil {
				return errors.New("disable: " + err.Error())
			}
			for _, k := range list {
				if !slices.Contains(kindNames, k) {
					return errors.New("disable: unknown kind " + k)
				}
				c.disabled[k] = true
			}
		case "min_confidence":
			least, err := v.Float()
			if err != nil {
				return errors.New("min_confidence: " + err.Error())
			}
			if !(least >= 0 && least <= 1) {
				return errors.New("min_confidence: must be between 0 and 1")
			}
			c.minConfidence = float32(least)
		default:
			return errors.New(name + ": unknown key; known are disable and min_confidence")
		}
		return nil
	})
	if err == nil {
		config = c
	}
	return err
}
