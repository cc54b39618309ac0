package plugin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// What an author's function returns or panics with may hold arguments, texts and records. The gateway is told, and
// masks it. The log, which nobody masks, is not.
func TestErrorsAreNotLogged(t *testing.T) {
	const held = "held-in-an-error"
	for name, fail := range map[string]func() error{
		"returned":   func() error { return errors.New(held) },
		"panicked":   func() error { panic(held) },
		"with error": func() error { panic(errors.New(held)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := load(t, Authorizer{Info: Info{Name: "fails", Version: "1", Findings: []FindingKind{{Kind: "X"}}},
				Check: func(context.Context, *Call) (sdk.Verdict, error) { return sdk.Verdict{}, fail() }},
				Scanner{Scan: func(context.Context, *Text) ([]sdk.Finding, error) { return nil, fail() }})
			r.configure(t, "{}")
			a, err := r.authorizer.Check(t.Context(), request(1, "x"))
			if err != nil || a.Error == "" || name == "returned" && a.Error != held {
				t.Errorf("check: %v %v", a, err)
			}
			f, err := r.scanner.Scan(t.Context(), &pluginv1.ScanRequest{Id: 1, Text: []byte("x")})
			if err != nil || f.Error == "" || name == "returned" && f.Error != held {
				t.Errorf("scan: %v %v", f, err)
			}
			if logged := r.logs.String(); strings.Contains(logged, held) ||
				strings.Count(logged, "failed; the gateway has the error") != 2 {
				t.Errorf("logged:\n%s", logged)
			}
		})
	}
}
