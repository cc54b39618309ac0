package authzen

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/testkit/limits"
	"github.com/yett-dev/yett/sdk/exact"
)

// An approval is over at its end, at the end of its task, and when the task is cancelled, whatever the store says.
func TestRedeemable(t *testing.T) {
	now := time.Date(2026, 11, 22, 7, 0, 0, 0, time.UTC)
	stamp := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339Nano) }
	lim := limits.Default(t)
	c := func(approval string) *call {
		t.Helper()
		req, err := object(`{"subject":{"type":"u","id":"a"},"action":{"name":"n"},"resource":{"type":"r","id":"1"},`+
			`"context":{"approval":`+approval+`}}`, &lim)
		if err != nil {
			t.Fatal(err)
		}
		call, err := readCall(req, exact.Value{}, &lim)
		if err != nil {
			t.Fatal(err)
		}
		return call
	}
	for name, r := range map[string]struct {
		expires, until time.Duration
		cancelled      bool
		want           string
	}{
		"it holds":              {time.Minute, time.Minute, false, ""},
		"its denial is over":    {-time.Minute, time.Minute, false, ""},
		"it is over":            {time.Minute, -time.Second, false, approvalExpired},
		"its task is over":      {-taskLife - time.Second, time.Minute, false, approvalExpired},
		"its task is cancelled": {time.Minute, time.Minute, true, approvalExpired},
	} {
		d := &door{seals: newSealer(make([]byte, sealBytes)), cancelled: newMemory(1)}
		d.set.Now = func() time.Time { return now }
		plain := c("null")
		is := approval{task{Token: "dfr_1", Evaluation: "dec_1", Expires: stamp(r.expires), Args: plain.argsSum,
			Context: plain.contextSum}, "apr_1", stamp(r.until)}
		if r.cancelled {
			d.cancelled.put("k", d.nameOf(&is.task), [32]byte{}, now, now.Add(time.Hour))
		}
		state, err := d.seals.seal(sealApproval, "k", &is)
		if err != nil {
			t.Fatal(err)
		}
		given := `{"id":"apr_1","approved_until":"` + is.Until + `","state":"` + state + `"}`
		if got, why := d.redeemable("k", c(given)); why != r.want || (got == nil) != (why != "") {
			t.Errorf("%s: %q, want %q", name, why, r.want)
		}
		if _, why := d.redeemable("other", c(given)); why != unverifiable {
			t.Errorf("%s, another key: %q", name, why)
		}
	}
}

// What a batch has not reached in its time is not decided.
func TestLateInABatch(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	lim := limits.Default(t)
	one, err := object(`{"subject":{"type":"u","id":"a"},"action":{"name":"n"},"resource":{"type":"r","id":"1"}}`, &lim)
	if err != nil {
		t.Fatal(err)
	}
	room := 1 << 20
	d := &door{}
	d.set.Limits = lim
	o := d.one(ctx, &front.Request{}, one, exact.Value{}, &room, &decisions{})
	if o.permit || !strings.Contains(string(o.context), `"status":408`) {
		t.Errorf("%t %s", o.permit, o.context)
	}
}
