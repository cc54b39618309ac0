package plugin

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// myError is an author's: its nil pointer is an error that is not nil, and panics when it is asked.
type myError struct{ cause error }

func (e *myError) Error() string { return e.cause.Error() }
func (e *myError) Unwrap() error { return e.cause }

// nilError is how such an error comes about.
func nilError() error {
	var e *myError
	return e
}

// TestNilErrors returns a nil pointer as an error from each function: what was asked fails, and the process lives.
func TestNilErrors(t *testing.T) {
	at := ""
	here := func(what string) error {
		switch at {
		case what:
			return nilError()
		case "wrapped " + what:
			return fmt.Errorf("a wrapped one: %w", nilError())
		}
		return nil
	}
	info := Info{Name: "nil", Version: "1", Findings: []FindingKind{{Kind: "X"}}}
	authorizer := Authorizer{Info: info,
		Validate:  func(context.Context, Settings) error { return here("validate") },
		Configure: func(context.Context, Settings) error { return here("configure") },
		Health:    func() error { return here("health") },
		Close:     func(context.Context) error { return nilError() },
		Check: func(context.Context, *Call) (sdk.Verdict, error) {
			return sdk.Verdict{Effect: sdk.Permit, Code: "OK"}, nilError()
		},
	}
	scanner := Scanner{Scan: func(context.Context, *Text) ([]sdk.Finding, error) { return nil, nilError() }}
	subscriber := Subscriber{Consume: func(context.Context, *Batch) error {
		var none *RecordError
		return none
	}}
	for _, at = range []string{"validate", "wrapped validate", "configure", "wrapped configure"} {
		r := load(t, authorizer, scanner, subscriber)
		resp, err := r.plugin.Configure(t.Context(), &pluginv1.ConfigureRequest{})
		if text := fmt.Sprint(resp, err); !strings.Contains(text, "panicked") {
			t.Errorf("%s: %s", at, text)
		}
	}
	at = ""
	r := load(t, authorizer, scanner, subscriber)
	r.configure(t, "{}")
	if a, err := r.authorizer.Check(t.Context(), request(1, "x")); err != nil ||
		a.Error != "Check panicked; the plugin's log has the stack" || a.Effect != 0 {
		t.Errorf("%v %v", a, err)
	}
	if a, err := r.scanner.Scan(t.Context(), &pluginv1.ScanRequest{Id: 1}); err != nil ||
		!strings.Contains(a.Error, "Scan panicked") {
		t.Errorf("%v %v", a, err)
	}
	stream, err := r.subscriber.Consume(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(batch(1, 1)); err != nil {
		t.Fatal(err)
	}
	if a, err := stream.Recv(); err != nil || a.Seq != 0 || !strings.Contains(a.Error, "Consume panicked") {
		t.Errorf("%v %v", a, err)
	}
	at = "health"
	if h := r.server.health(); h.Status != pluginv1.HealthResponse_STATUS_NOT_SERVING ||
		!strings.Contains(h.Detail, "Health panicked") {
		t.Errorf("%v", h)
	}
	at = ""
	if err := r.drain(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.logs.String(), "Close panicked") {
		t.Error(r.logs.String())
	}
}
