package plugin

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// TestCheck asks both ways: what comes back must be the same, and no failure may look like a verdict.
func TestCheck(t *testing.T) {
	r := load(t, sample())
	r.configure(t, "{}")
	stream, err := r.authorizer.CheckStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ tool, effect, code, failure string }{
		{"permit", "EFFECT_PERMIT", "OK", ""},
		{"deny", "EFFECT_DENY", "NO", ""},
		{"defer", "EFFECT_DEFER", "ASK", ""},
		{"unknown", "EFFECT_ABSTAIN", "", ""},
		{"error", "EFFECT_UNSPECIFIED", "", "the database is down"},
		{"mute", "EFFECT_UNSPECIFIED", "", "failed without a reason"},
		{"panic", "EFFECT_UNSPECIFIED", "", "Check panicked"},
		{"late", "EFFECT_UNSPECIFIED", "", "after the deadline"},
		{"no-code", "EFFECT_UNSPECIFIED", "", "the verdict breaks a rule: code: PERMIT needs one"},
		{"no-effect", "EFFECT_UNSPECIFIED", "", "the verdict breaks a rule: unknown effect 9"},
		{"long-deny", "EFFECT_DENY", "", "the verdict breaks a rule: reason: 1025 bytes"},
		{"no-code-defer", "EFFECT_DEFER", "", "the verdict breaks a rule: code: DEFER needs one"},
	} {
		req := request(uint64(i+1), c.tool)
		if c.tool == "late" {
			req.DeadlineUnixNano = time.Now().Add(20 * time.Millisecond).UnixNano()
		}
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
		streamed, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		unary, err := r.authorizer.Check(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []*pluginv1.CheckResponse{streamed, unary} {
			if got.GetId() != req.GetId() || got.GetEffect().String() != c.effect || got.GetCode() != c.code {
				t.Errorf("%s: %v", c.tool, got)
			}
			if (c.failure == "") != (got.GetError() == "") || !strings.Contains(got.GetError(), c.failure) && c.tool != "late" {
				t.Errorf("%s: error %q, want %q", c.tool, got.GetError(), c.failure)
			}
		}
	}
	if logs := r.logs.String(); !strings.Contains(logs, "goroutine") || !strings.Contains(logs, `"in":"Check"`) {
		t.Errorf("the log has no stack of the panic: %s", logs)
	}
}

func TestMalformedChecks(t *testing.T) {
	r := load(t, sample())
	r.configure(t, "{}")
	for name, spoil := range map[string]func(*pluginv1.CheckRequest){
		"id":                   func(m *pluginv1.CheckRequest) { m.Id = 0 },
		"call: is missing":     func(m *pluginv1.CheckRequest) { m.Call = nil },
		"call.tool_id":         func(m *pluginv1.CheckRequest) { m.Call.ToolId = "" },
		"call.digest":          func(m *pluginv1.CheckRequest) { m.Call.Digest = m.Call.GetDigest()[1:] },
		"call.args":            func(m *pluginv1.CheckRequest) { m.Call.Args = []byte(`{"a":1`) },
		"call.args: must be":   func(m *pluginv1.CheckRequest) { m.Call.Args = []byte(`[]`) },
		"call.args: invalid":   func(m *pluginv1.CheckRequest) { m.Call.Args = []byte(`{"a":1,"a":2}`) },
		"call.context":         func(m *pluginv1.CheckRequest) { m.Call.Context = []byte(`{} {}`) },
		"deadline_unix_nano: ": func(m *pluginv1.CheckRequest) { m.DeadlineUnixNano = -1 },
	} {
		req := request(7, "permit")
		spoil(req)
		got, err := r.authorizer.Check(t.Context(), req)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), name) {
			t.Errorf("Check, %s: %v, %v", name, got, err)
		}
		stream, err := r.authorizer.CheckStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
		got, err = stream.Recv()
		if name == "id" { // cannot be answered
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("CheckStream, %s: %v, %v", name, got, err)
			}
			continue
		}
		if err != nil || got.GetId() != 7 || got.GetEffect() != 0 || !strings.Contains(got.GetError(), name) {
			t.Errorf("CheckStream, %s: %v, %v", name, got, err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("CheckStream, %s: ends with %v", name, err)
		}
	}
}

func TestNothingBeforeConfigure(t *testing.T) {
	r := load(t, sample(), Scanner{Info: Info{Findings: []FindingKind{{Kind: "K"}}}, Scan: nothing},
		Subscriber{Consume: func(context.Context, *Batch) error { return nil }})
	want := func(what string, err error) {
		t.Helper()
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: %v", what, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := r.authorizer.Check(ctx, request(1, "permit"))
	want("Check", err)
	_, err = r.scanner.Scan(ctx, &pluginv1.ScanRequest{Id: 1})
	want("Scan", err)
	checks, err := r.authorizer.CheckStream(ctx)
	if err == nil {
		_, err = checks.Recv()
	}
	want("CheckStream", err)
	batches, err := r.subscriber.Consume(ctx)
	if err == nil {
		_, err = batches.Recv()
	}
	want("Consume", err)
	if h := r.server.health(); h.GetStatus() != pluginv1.HealthResponse_STATUS_NOT_SERVING {
		t.Errorf("health: %v", h)
	}
}

// TestChecksSideBySide holds checks until as many run as Info says: that works only if they run at once. One more must
// wait.
func TestChecksSideBySide(t *testing.T) {
	const most = 8
	begun, release := make(chan struct{}, 2*most), make(chan struct{})
	a := sample()
	a.Check = func(ctx context.Context, _ *Call) (sdk.Verdict, error) {
		begun <- struct{}{}
		select {
		case <-release:
			return sdk.Verdict{}, nil
		case <-ctx.Done():
			return sdk.Verdict{}, ctx.Err()
		}
	}
	r := load(t, a)
	r.configure(t, "{}")
	stream, err := r.authorizer.CheckStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * most {
		if err := stream.Send(request(uint64(i+1), "x")); err != nil {
			t.Fatal(err)
		}
	}
	for range most {
		<-begun
	}
	select {
	case <-begun:
		t.Errorf("more than %d at once", most)
	case <-time.After(50 * time.Millisecond): // only a defect can fail here, however slow the machine is
	}
	close(release)
	seen := map[uint64]bool{}
	for range 2 * most {
		got, err := stream.Recv()
		if err != nil || got.GetError() != "" || seen[got.GetId()] {
			t.Fatal(got, err)
		}
		seen[got.GetId()] = true
	}
}

// TestEveryCheckIsAnsweredOnce sends bursts and waits for each to be answered whole: an answer that the shared sender
// forgets is not made up for by a later one.
func TestEveryCheckIsAnsweredOnce(t *testing.T) {
	r := load(t, sample())
	r.configure(t, "{}")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	stream, err := r.authorizer.CheckStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	id := uint64(0)
	for burst := range 1000 {
		first := id + 1
		for range 8 {
			id++
			if err := stream.Send(request(id, "deny")); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[uint64]bool{}
		for range 8 {
			got, err := stream.Recv()
			if err != nil || got.GetEffect() != pluginv1.CheckResponse_EFFECT_DENY || got.GetId() < first || seen[got.GetId()] {
				t.Fatal(burst, got, err)
			}
			seen[got.GetId()] = true
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(got, err)
	}
}

func TestVerdicts(t *testing.T) {
	long := strings.Repeat("x", maxLine+1)
	deny := sdk.Verdict{Effect: sdk.Deny, Code: "NO"}
	ask := sdk.Verdict{Effect: sdk.Defer, Code: "ASK"}
	with := func(v sdk.Verdict, f func(*sdk.Verdict)) sdk.Verdict { f(&v); return v }
	for want, v := range map[string]sdk.Verdict{
		"code: DENY needs":         {Effect: sdk.Deny},
		"code: \"no\"":             with(deny, func(v *sdk.Verdict) { v.Code = "no" }),
		"code: \"NNN":              with(deny, func(v *sdk.Verdict) { v.Code = strings.Repeat("N", 65) }),
		"reason: 1025 bytes":       with(deny, func(v *sdk.Verdict) { v.Reason = long }),
		"reason: 1 bytes":          with(deny, func(v *sdk.Verdict) { v.Reason = "\xff" }),
		"message: 1025":            with(deny, func(v *sdk.Verdict) { v.Message = long }),
		"rule id: 257":             with(deny, func(v *sdk.Verdict) { v.RuleID = long[:257] }),
		"ttl: ":                    with(deny, func(v *sdk.Verdict) { v.TTL = -1 }),
		"limits: ":                 with(deny, func(v *sdk.Verdict) { v.Limits = make([]sdk.Limit, 1) }),
		"only DEFER has them, not": with(deny, func(v *sdk.Verdict) { v.Approvals = 1 }),
		"approvals: 101":           with(ask, func(v *sdk.Verdict) { v.Approvals = 101 }),
		"approvals: -1":            with(ask, func(v *sdk.Verdict) { v.Approvals = -1 }),
		"expires: ":                with(ask, func(v *sdk.Verdict) { v.Expires = time.Microsecond }),
		"priority: ":               with(ask, func(v *sdk.Verdict) { v.Priority = "urgent" }),
		"from: \"me\"":             with(ask, func(v *sdk.Verdict) { v.From = []string{"me"} }),
		"the preset auditor":       with(ask, func(v *sdk.Verdict) { v.From = []string{"role:operator", "role:auditor"} }),
		"preset agent may not":     with(ask, func(v *sdk.Verdict) { v.From = []string{"role:agent"} }),
		"role:king":                with(ask, func(v *sdk.Verdict) { v.From = []string{"role:king"} }),
		"approvals: 3, but from": with(ask, func(v *sdk.Verdict) {
			v.Approvals, v.From = 3, []string{"key:a", "key:b", "key:a"}
		}),
		"from: 101": with(ask, func(v *sdk.Verdict) { v.From = make([]string, 101) }),
	} {
		var out pluginv1.CheckResponse
		if err := answer(&out, &v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", v, err, want)
		}
		if out.GetEffect() != 0 {
			t.Errorf("%s: an effect is filled in", want)
		}
	}
}

func TestCallContext(t *testing.T) {
	ctx, end := within(t.Context(), time.Now().Add(-time.Second).UnixNano())
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("past its deadline: %v", ctx.Err())
	}
	end()
	parent, cancel := context.WithCancel(t.Context())
	ctx, end = within(parent, time.Now().Add(time.Hour).UnixNano())
	child, stop := context.WithCancel(ctx)
	defer stop()
	if ctx.Err() != nil || child.Err() != nil {
		t.Errorf("before anything: %v", ctx.Err())
	}
	if d, ok := ctx.Deadline(); !ok || time.Until(d) < time.Minute {
		t.Errorf("deadline %v", d)
	}
	cancel()
	<-child.Done()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("after its parent: %v", ctx.Err())
	}
	end()
	ctx, end = within(t.Context(), time.Now().Add(time.Hour).UnixNano())
	end()
	<-ctx.Done()
	if ctx.Err() == nil {
		t.Error("kept beyond its call, the context goes on")
	}
}

func nothing(context.Context, *Text) ([]sdk.Finding, error) { return nil, nil }

func BenchmarkCheckStream(b *testing.B) {
	a := sample()
	a.Info.MaxInFlight = 64
	r := load(b, a)
	r.configure(b, "{}")
	stream, err := r.authorizer.CheckStream(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	req := request(1, "deny")
	credit := make(chan struct{}, 64)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range b.N {
			credit <- struct{}{}
			if stream.Send(req) != nil {
				return
			}
		}
	}()
	for range b.N {
		if _, err := stream.Recv(); err != nil {
			b.Fatal(err)
		}
		<-credit
	}
}
