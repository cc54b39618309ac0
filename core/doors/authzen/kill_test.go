package authzen_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// holding permits everything, and waits with the calls of record 2 until it is let go.
type holding struct{ began, goOn chan struct{} }

// Check implements chain.Checker.
func (h holding) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	if strings.Contains(string(c.Args.AppendCanonical(nil)), `"record-2"`) {
		h.began <- struct{}{}
		<-h.goOn
	}
	return sdk.Verdict{Effect: sdk.Permit, Code: "HELD"}, nil
}

// What a batch has permitted is taken back if a kill, or the end of the key, comes before the rest is decided.
func TestKillWithinABatch(t *testing.T) {
	for name, stop := range map[string]func(b *bench, id string) error{
		"kill": func(b *bench, _ string) error {
			_, err := b.Service.Kill(context.Background(), doortest.Operator, &wire.KillRequest{Scope: "global"})
			return err
		},
		"revoked": func(b *bench, id string) error {
			return b.Service.RevokeKey(context.Background(), id, doortest.Operator)
		},
	} {
		h := holding{make(chan struct{}), make(chan struct{})}
		b := open(t, doortest.WithRule(t, h))
		key := b.Key("pep", "agent")
		answered := make(chan *reply, 1)
		go func() {
			answered <- b.send(key.Value, http.MethodPost, "/access/v1/evaluations", join(alice, read,
				`"evaluations":[{`+record1+`},{"resource":{"type":"record","id":"record-2"}}]`))
		}()
		<-h.began
		if err := stop(b, key.Key.ID); err != nil {
			t.Fatal(err)
		}
		close(h.goOn)
		if r := <-answered; r.status != http.StatusOK || r.at("evaluations", 0, "decision") != false || permits(r.json) {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
	}
}
