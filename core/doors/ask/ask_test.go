package ask_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

func object(t *testing.T, text string) exact.Value {
	t.Helper()
	var doc exact.Doc
	if err := doc.Parse(text, exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	return doc.Root()
}

func TestAuthorize(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Key
	c := ask.Caller{Key: key, Who: store.Who{Principal: key.ID, Method: "api_key", Surface: "doors"}}
	for tool, want := range map[string]string{"read": "PERMIT", "deny": "DENY", "defer": "DEFER", "fails": "DENY"} {
		d, err := b.Asker.Authorize(context.Background(), c, &wire.AuthorizeRequest{AgentID: "a", ToolID: tool,
			CallID: "1-" + tool, Args: object(t, `{"n":12345678901234567890.10}`)})
		if err != nil {
			t.Fatal(err)
		}
		d.Sent()
		d.Sent()
		if d.Effect != want || d.Permits() != (want == "PERMIT") {
			t.Errorf("%s: %s, may run %t", tool, d.Effect, d.Permits())
		}
	}
	again, err := b.Asker.Authorize(context.Background(), c, &wire.AuthorizeRequest{AgentID: "a", ToolID: "read",
		CallID: "1-read", Args: object(t, `{"n":12345678901234567890.10}`)})
	if err != nil || again.Effect != "PERMIT" || again.Permits() {
		t.Errorf("a repeat may run: %+v, %v", again, err)
	}
	again.Sent()
	b.BreakStore(true)
	if d, err := b.Asker.Authorize(context.Background(), c, &wire.AuthorizeRequest{AgentID: "a",
		ToolID: "read"}); err == nil {
		t.Errorf("without a record: %s", d.Effect)
	}
}

// What is pasted into a request brings no members of its own.
func TestScanTakesOneValue(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Key
	c := ask.Caller{Key: key}
	for _, text := range []string{`1,"content_type":"text/plain"`, `{`, ``, `1 2`} {
		for _, q := range []wire.ScanRequest{{ToolID: "t", OutputJSON: json.RawMessage(text)},
			{ToolID: "t", Outputs: []wire.ScanOutput{{OutputJSON: json.RawMessage(text)}}}} {
			_, err := b.Asker.Scan(context.Background(), c, &q)
			if e, ok := err.(*sdk.Error); !ok || e.Code != sdk.CodeInvalidJSON {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	got, err := b.Asker.Scan(context.Background(), c, &wire.ScanRequest{ToolID: "t",
		OutputJSON: json.RawMessage(`{"a":"` + doortest.Secret + `","n":1.0}`)})
	if err != nil || string(got.SanitizedJSON) != `{"a":"`+doortest.Mask+`","n":1.0}` {
		t.Errorf("%+v, %v", got, err)
	}
}
