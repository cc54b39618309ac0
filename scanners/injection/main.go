// Command injection is a scanner that finds prompt injection: text in what tools and models put out that
// speaks to the
// model that will read it. Rules find it by concepts in many languages, by the marks of chat formats, by links that
// carry data away and by text that nobody sees; a small linear model adds what rules do not say. Text comes
// from the
// host or from standard input; findings are the sentences or lines that carry the injection. It keeps nothing
// between
// texts, downloads nothing, and looks only around the hits of its triggers.
package main

import (
	"errors"

	"github.com/yett-dev/yett/sdk/scanner"
)

func init() {
	lex.fill()
	scanner.Register(spec)
}

func main() { scanner.Main() }

var rules = newEngine()

var spec = scanner.Spec{
	Name:       "injection",
	Version:    "1.0.0",
	Kinds:      kinds(),
	Triggers:   rules.triggers,
	Stream:     scanner.StreamWindow,
	Lookbehind: maxSpan,
	Config:     schema,
	Init:       configure,
	Scan:       scanText,
}

// maxSpan bounds a finding and what it depends on, bytes.
const maxSpan = 8 << 10

const schema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"disable":{"type":"array","items":{"type":"string","pattern":"^INJECTION_[A-Z0-9_]+$"},"description":"kinds that are not reported"},` +
	`"sensitivity":{"type":"integer","minimum":-100,"maximum":100,"description":"what is added to the model's score, hundredths; higher finds more and is wrong more often; default 0"}}}`

// settings is the operator's configuration.
type settings struct {
	disabled    [kindCount]bool
	sensitivity int
}

var config settings

func configure(doc []byte) error {
	var c settings
	err := scanner.Members(doc, func(name string, v scanner.Value) error {
		switch name {
		case "disable":
			list, err := v.Strings()
			if err != nil {
				return errors.New("disable: " + err.Error())
			}
			for _, k := range list {
				kind := kindOf(k)
				if kind < 0 {
					return errors.New("disable: unknown kind " + k)
				}
				c.disabled[kind] = true
			}
		case "sensitivity":
			n, err := v.Float()
			if err != nil {
				return errors.New("sensitivity: " + err.Error())
			}
			if !(n >= -100 && n <= 100) || n != float64(int(n)) {
				return errors.New("sensitivity: must be a whole number between -100 and 100")
			}
			c.sensitivity = int(n)
		default:
			return errors.New(name + ": unknown key; known are disable and sensitivity")
		}
		return nil
	})
	if err == nil {
		config = c
	}
	return err
}

func kindOf(name string) int {
	for i := range kindTable {
		if kindTable[i].name == name {
			return i
		}
	}
	return -1
}

func kinds() []scanner.Kind {
	list := make([]scanner.Kind, 0, kindCount)
	for _, k := range kindTable {
		list = append(list, scanner.Kind{Name: k.name, Severity: k.severity})
	}
	return list
}
