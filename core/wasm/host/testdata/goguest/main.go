// Command goguest is a Go module for the tests of the host: it finds the word TICKET followed by digits, prints, panics
// on demand, and decides calls by their operation.
package main

import (
	"bytes"
	"errors"

	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/scanner"
)

func init() {
	scanner.Register(scanner.Spec{
		Name: "goguest", Version: "0.1.0",
		Kinds: []scanner.Kind{{Name: "TICKET", Severity: scanner.Low}},
		Init: func(config []byte) error {
			if !bytes.Equal(config, []byte("{}")) {
				return errors.New("no configuration is known")
			}
			return nil
		},
		Scan: func(in *scanner.In, out *scanner.Out) error {
			if bytes.Contains(in.Text, []byte("PANIC")) {
				println("about to panic")
				panic("asked for")
			}
			for at := 0; ; {
				i := bytes.Index(in.Text[at:], []byte("TICKET"))
				if i < 0 {
					return nil
				}
				start := at + i
				for at = start + len("TICKET"); at < len(in.Text) && in.Text[at] >= '0' && in.Text[at] <= '9'; at++ {
				}
				out.Redact("TICKET", start, at, 1)
			}
		},
		Check: func(call []byte, d *scanner.Decision) error {
			d.Effect = abi.EffectDeny
			d.Code = "NOT_READ"
			if bytes.Contains(call, []byte(`"operation":"read"`)) {
				d.Effect, d.Code = abi.EffectPermit, "READ"
			}
			return nil
		},
	})
}

func main() { scanner.Main() }
