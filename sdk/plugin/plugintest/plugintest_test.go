package plugintest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAuthorizer(t *testing.T) {
	closed := false
	t.Cleanup(func() { // runs after Load's
		if !closed {
			t.Error("Close did not run")
		}
	})
	full := sdk.Verdict{
		Effect: sdk.Defer, Code: "ASK", Reason: "r", RuleID: "i", Message: "m", Approvals: 2, Expires: time.Minute,
		TTL: time.Second, From: []string{"role:approver"}, Priority: sdk.PriorityLow,
	}
	c := Load(t, plugin.Authorizer{
		Info: plugin.Info{Name: "x", Version: "1", Secrets: []plugin.Secret{{Name: "s", Required: true}},
			CacheKeyFields: []string{"args"}},
		Check: func(ctx context.Context, c *plugin.Call) (sdk.Verdict, error) {
			switch {
			case c.ToolID == "broken":
				return sdk.Verdict{Effect: sdk.Permit}, nil
			case c.ToolID == "slow":
				<-ctx.Done()
				return full, nil
			case c.Digest == [32]byte{}, c.Time.IsZero(), c.Generation == "":
				return sdk.Verdict{}, errors.New("something is missing")
			}
			return full, nil
		},
		Close: func(context.Context) error { closed = true; return nil },
	})
	if i := c.Info(); i.Name != "x" || len(i.Secrets) != 1 || !i.Secrets[0].Required || len(i.CacheKeyFields) != 1 {
		t.Errorf("%+v", i)
	}
	if c.Health() == nil {
		t.Error("serving before Configure")
	}
	if _, err := c.Check(t.Context(), &plugin.Call{ToolID: "x"}); err == nil ||
		!strings.Contains(err.Error(), "not configured") {
		t.Error("before Configure:", err)
	}
	var problems plugin.Problems
	if err := c.Validate(nil, nil); !errors.As(err, &problems) || problems[0].Field != "secrets.s" {
		t.Error(err)
	}
	if err := c.Configure(struct{}{}, map[string]string{"s": "value"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Health(); err != nil {
		t.Error(err)
	}
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			v, err := c.Check(t.Context(), &plugin.Call{ToolID: "x"})
			if err != nil || v.Code != full.Code || v.Expires != full.Expires || v.TTL != full.TTL ||
				v.From[0] != full.From[0] || v.Approvals != 2 {
				t.Error(v, err)
			}
		})
	}
	all.Wait()
	if v, err := c.Check(t.Context(), &plugin.Call{ToolID: "broken"}); err == nil || v.Effect != sdk.Abstain {
		t.Error("a verdict without a code:", v, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if v, err := c.Check(ctx, &plugin.Call{ToolID: "slow"}); err == nil {
		t.Error("late:", v)
	}
}

// TestManyAtOnce wants every caller answered by a plugin that takes one call at a time, however much lies between them.
func TestManyAtOnce(t *testing.T) {
	c := Load(t, plugin.Authorizer{
		Info: plugin.Info{Name: "x", Version: "1", MaxInFlight: 1},
		Check: func(context.Context, *plugin.Call) (sdk.Verdict, error) {
			return sdk.Verdict{Effect: sdk.Deny, Code: "NO", Reason: strings.Repeat("r", 1000)}, nil
		},
	})
	if err := c.Configure(nil, nil); err != nil {
		t.Fatal(err)
	}
	args := []byte(`{"a":"` + strings.Repeat("x", 10_000) + `"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if v, err := c.Check(ctx, &plugin.Call{ToolID: "x", Args: args}); err != nil || v.Effect != sdk.Deny {
				t.Error(v, err)
			}
		})
	}
	all.Wait()
}

// TestStuck wants the context of each caller to hold while the plugin takes nothing more.
func TestStuck(t *testing.T) {
	release := make(chan struct{})
	c := Load(t, plugin.Authorizer{
		Info:  plugin.Info{Name: "x", Version: "1", MaxInFlight: 1},
		Check: func(context.Context, *plugin.Call) (sdk.Verdict, error) { <-release; return sdk.Verdict{}, nil },
	})
	if err := c.Configure(nil, nil); err != nil {
		t.Fatal(err)
	}
	args := []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)
	for i := range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if v, err := c.Check(ctx, &plugin.Call{ToolID: "x", Args: args}); err == nil {
			t.Errorf("call %d: %v", i, v)
		}
		cancel()
	}
	close(release)
}

func TestScanner(t *testing.T) {
	want := sdk.Finding{Kind: "K", Start: 1, End: 3, Confidence: 0.5, Severity: sdk.Critical, Suggested: sdk.Drop}
	c := Load(t, plugin.Scanner{
		Info: plugin.Info{Name: "x", Version: "1", Findings: []plugin.FindingKind{{Kind: "K"}}},
		Scan: func(_ context.Context, t *plugin.Text) ([]sdk.Finding, error) {
			if t.Text == "" {
				return nil, errors.New("empty")
			}
			return []sdk.Finding{want}, nil
		},
	})
	if err := c.Configure(nil, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Scan(t.Context(), &plugin.Text{Text: "abcd"}); err != nil || len(got) != 1 || got[0] != want {
		t.Error(got, err)
	}
	for _, text := range []string{"", "ab"} {
		if got, err := c.Scan(t.Context(), &plugin.Text{Text: text}); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestSubscriber(t *testing.T) {
	var chain plugin.Chain
	c := Load(t, plugin.Subscriber{
		Info: plugin.Info{Name: "x", Version: "1"},
		Consume: func(_ context.Context, b *plugin.Batch) error {
			if proven, err := chain.Add(b); err != nil || !proven {
				return errors.Join(err, errors.New("not proven"))
			}
			for _, r := range b.Records {
				if string(r.JSON) == `{"bad":1}` {
					return &plugin.RecordError{Seq: r.Seq, Err: errors.New("bad")}
				}
			}
			return nil
		},
	})
	if err := c.Configure("{}", nil); err != nil {
		t.Fatal(err)
	}
	var log Log
	first, second := log.Append(`{}`, `{"a":1}`), log.Append(`{}`, `{"a":2}`, `{"a":3}`)
	if seq, err := c.Consume(t.Context(), first, second); err != nil || seq != 5 {
		t.Error(seq, err)
	}
	if seq, err := c.Consume(t.Context(), log.Append(`{}`), log.Append(`{}`, `{"bad":1}`), log.Append(`{}`)); err == nil ||
		seq != 7 {
		t.Error(seq, err)
	}
	other := Log{StoreID: "other"}
	if seq, err := c.Consume(t.Context(), other.Append(`{}`)); err == nil || seq != 0 {
		t.Error("another log:", seq, err)
	}
}

// TestOutage wants to see how far a subscriber came before whatever it writes to went down, in the last batch and
// before it.
func TestOutage(t *testing.T) {
	c := Load(t, plugin.Subscriber{
		Info: plugin.Info{Name: "x", Version: "1"},
		Consume: func(_ context.Context, b *plugin.Batch) error {
			for _, r := range b.Records {
				if string(r.JSON) == `{"down":1}` {
					return &plugin.Later{Seq: r.Seq, Err: errors.New("the service is down")}
				}
			}
			return nil
		},
	})
	if err := c.Configure("{}", nil); err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{0, 1} {
		var log Log
		batches := []*plugin.Batch{log.Append(`{}`, `{}`), log.Append(`{}`, `{"down":1}`, `{}`)}
		for range more {
			batches = append(batches, log.Append(`{}`))
		}
		seq, err := c.Consume(t.Context(), batches...)
		if status.Code(err) != codes.Unavailable ||
			!strings.Contains(err.Error(), "from record 4 on nothing is taken in now: the service is down") || seq != 3 {
			t.Errorf("%d more: %d, %v", more, seq, err)
		}
	}
}

// endedStream is one whose plugin has gone with status OK.
type endedStream struct {
	grpc.BidiStreamingClient[pluginv1.Batch, pluginv1.Ack]
}

func (endedStream) Send(*pluginv1.Batch) error   { return io.EOF }
func (endedStream) Recv() (*pluginv1.Ack, error) { return nil, io.EOF }
func (endedStream) CloseSend() error             { return nil }

type endedSubscriber struct{ pluginv1.SubscriberClient }

func (endedSubscriber) Consume(context.Context,
	...grpc.CallOption) (grpc.BidiStreamingClient[pluginv1.Batch, pluginv1.Ack], error) {
	return endedStream{}, nil
}

// TestNobodyTookIt wants an error when a stream ends well before its batches were acknowledged.
func TestNobodyTookIt(t *testing.T) {
	c := &Client{t: t, subscriber: endedSubscriber{}}
	var log Log
	if seq, err := c.Consume(t.Context(), log.Append(`{}`)); err == nil || seq != 0 {
		t.Error(seq, err)
	}
	if seq, err := c.Consume(t.Context()); err != nil || seq != 0 {
		t.Error("nothing was sent:", seq, err)
	}
}
