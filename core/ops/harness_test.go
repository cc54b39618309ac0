package ops_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// toolName is a chain that answers with what the tool is called.
type toolName struct{}

func (toolName) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	name, _, _ := strings.Cut(c.ToolID, "/")
	effect, ok := sdk.ParseEffect(strings.ToUpper(name))
	if !ok {
		return sdk.Verdict{}, errors.New("no such effect")
	}
	return sdk.Verdict{Effect: effect, Code: "TEST"}, nil
}

type silent struct{}

func (silent) Operated(string, string, sdk.Code, time.Duration)  {}
func (silent) Asked(string, string, string, bool, time.Duration) {}
func (silent) Refused(string, sdk.Code)                          {}
func (silent) Kept(string, string, string)                       {}

// bench is a service on a real store.
type bench struct {
	t      testing.TB
	store  *store.Store
	svc    *ops.Service
	gen    *ops.Generation // in force
	force  atomic.Pointer[ops.Generation]
	offset atomic.Int64 // how far the clock is ahead
	tick   ticker
}

func (b *bench) now() time.Time { return time.Now().Add(time.Duration(b.offset.Load())) }

var admin = store.Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"}

// newBench opens a store in a new directory. wrap puts something between service and store; nil puts nothing there.
func newBench(t testing.TB, wrap func(ops.Store) ops.Store) *bench {
	return newBenchOf(t, usualRoom, wrap)
}

// scanRoom bounds the streams of scan_output: of one key, the bytes that one holds, those of one key and of all.
// Without a share one key may hold all.
type scanRoom struct {
	perKey, held  int
	share, memory int64
}

// usualRoom leaves keys that hold much 1 MiB: the last quarter is not for them.
var usualRoom = scanRoom{perKey: 4, held: 64, share: 850 << 10, memory: 4 << 20 / 3}

// replay holds the records of a store against each other, as yett audit verify --invariants does. front is what the
// service sees of the store: a cache that lets revoked keys in must be found out.
func replay(t testing.TB, s *store.Store, front ops.Store) {
	t.Helper()
	rules := log.NewInvariants(s.First())
	err := s.Records(s.First(), rules.Record)
	if err == nil {
		err = rules.End()
	}
	switch _, planted := front.(*staleCache); {
	case planted && err == nil:
		t.Error("the log of a gateway that lets revoked keys in passes as true")
	case err != nil && !planted:
		t.Error(err)
	}
}

// newBenchOf is newBench with other limits for scan streams.
func newBenchOf(t testing.TB, scans scanRoom, wrap func(ops.Store) ops.Store) *bench {
	b := &bench{t: t}
	var err error
	b.store, err = store.Open(store.Settings{Dir: t.TempDir(), Now: b.now, NewID: func() string {
		return "sto_test"
	}, Secret: []byte("secret"), Log: t.Logf, OnFatal: func(err error) { t.Errorf("fatal: %v", err) }, Stall: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var st ops.Store = b.store
	if wrap != nil {
		st = wrap(st)
	}
	t.Cleanup(func() {
		replay(t, b.store, st)
		if err := b.store.Close(); err != nil {
			t.Error(err)
		}
	})
	gen := &ops.Generation{Policy: "p", Args: "digest",
		Scan: &chain.ScanChain{Keys: ops.KeysIn, Budget: time.Minute, Now: b.now,
			Steps: []chain.ScanStep{{Name: "none", Scanner: finds{}}}},
		Authorize: &chain.Authorizer{Budget: 1000 * time.Hour, Now: b.now, Default: sdk.Deny,
			Steps: []chain.Step{{Name: "tool", Inline: true, OnError: sdk.Deny, Checker: toolName{}}}}}
	b.gen = gen
	b.force.Store(gen)
	b.svc = ops.New(ops.Settings{Store: st, Generation: b.force.Load, Pepper: []byte("pepper"), Now: b.now,
		Random: func(p []byte) { _, _ = rand.Read(p) },
		Limits: config.Limits{Name: 256, PendingPerKey: 100_000, LongPollsPerKey: 64, Grants: 1000, StreamsPerKey: 16,
			ScanStreams: scans.perKey, ScanStream: config.Size(scans.held), ScanStreamsAll: config.Size(scans.memory),
			ScanIdle: config.Duration(time.Minute)}, ScanShare: cmp.Or(scans.share, scans.memory),
		Defers: config.Defers{TTL: config.Duration(time.Minute), MaxTTL: config.Duration(time.Hour),
			ApprovedTTL: config.Duration(time.Hour)},
		Match: matchTool, Log: b.store, Policy: policyOf(gen), Observer: silent{}})
	t.Cleanup(b.svc.Close)
	return b
}

// swap puts another chain in force, with the same scanners.
func (b *bench) swap(a *chain.Authorizer) {
	b.gen = &ops.Generation{Policy: "next", Args: b.gen.Args, Scan: b.gen.Scan, Authorize: a}
	b.force.Store(b.gen)
}

// policyOf compiles every text but an empty one to the bench's own chain.
func policyOf(gen *ops.Generation) func(string) (*chain.Authorizer, error) {
	return func(text string) (*chain.Authorizer, error) {
		if text == "" {
			return nil, &ops.PolicyError{Faults: []ops.PolicyFault{{Line: 1, Column: 1, Msg: "empty"}}}
		}
		return gen.Authorize, nil
	}
}

// matchTool stands for compiled CEL: the condition is the JSON of the args for which it holds; "fail" is no condition.
func matchTool(expr string) (ops.Matcher, error) {
	if expr == "fail" {
		return nil, errors.New("no condition")
	}
	if expr == "slow" {
		return slowly{}, nil
	}
	return argsAre(expr), nil
}

// slowly is a condition that is looked at for as long as anybody lets it.
type slowly struct{}

func (slowly) Holds(ctx context.Context, _ *chain.Call) bool {
	<-ctx.Done()
	return false
}

type argsAre string

func (a argsAre) Holds(_ context.Context, c *chain.Call) bool {
	return string(c.Args.AppendCanonical(nil)) == string(a)
}

// finds is a scanner that finds nothing.
type finds struct{}

func (finds) Scan(context.Context, *chain.Input) ([]sdk.Finding, error) { return nil, nil }
func (finds) About() chain.About                                        { return chain.About{} }

func (b *bench) newKey(name, preset string) *ops.NewKey {
	b.t.Helper()
	k, err := b.svc.CreateKey(context.Background(), ops.KeySpec{Name: name, Preset: preset}, admin)
	if err != nil {
		b.t.Fatal(err)
	}
	return k
}

// run is one request as a transport makes it: authentication first, then the operation.
func (b *bench) run(value, op, body string) (string, error) {
	key, err := b.svc.KeyOf(value)
	if err != nil {
		return "", err
	}
	var doc exact.Doc
	if err := doc.Parse(body, exact.DefaultLimits); err != nil {
		return "", err
	}
	for i := range ops.Table {
		if ops.Table[i].Name != op {
			continue
		}
		resp, err := b.svc.Run(&ops.Table[i], &ops.Request{Ctx: context.Background(), Key: key,
			Who: store.Who{Principal: key.ID, Method: "api_key", Surface: "http"}, Start: b.now(), Body: doc.Root(), Raw: body})
		if err != nil {
			return "", err
		}
		return string(resp.AppendJSON(nil)), nil
	}
	return "", fmt.Errorf("no operation %s", op)
}

// code is an error's code, "" for none.
func code(err error) string {
	var e *sdk.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return string(e.Code)
	}
	return err.Error()
}

// full picks the larger number when YETT_FULL is set.
func full(usual, all int) int {
	if os.Getenv("YETT_FULL") != "" {
		return all
	}
	return usual
}

// member is a string member of an answer.
func member(answer, name string) string {
	_, rest, _ := strings.Cut(answer, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
