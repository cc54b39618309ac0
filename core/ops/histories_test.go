package ops_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	mrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// clients is how many are at work at once in every history.
const clients = 32

// unknown is the answer of an operation of which nobody can say whether it happened.
const unknown = "?"

// deed is one operation of a history, without its answer.
type deed struct {
	do, arg string
	n       int64
}

// history takes down what clients did, one part for each thing that they did it to. A part is checked by itself.
type history struct {
	tick  ticker
	mu    sync.Mutex
	parts map[string][]porcupine.Operation
	count int
	ends  map[string]int // operations by what they were and how they ended
}

func newHistory() *history {
	return &history{parts: map[string][]porcupine.Operation{}, ends: map[string]int{}}
}

// do runs one operation and takes it down. Of unknown outcome, it may still happen any time later, or never: it has no
// end.
func (h *history) do(client int, part string, d deed, run func() string) string {
	call := h.tick.now()
	out := run()
	h.add(client, call, d, out, part)
	return out
}

// add takes down an operation that ends now, in every part that it concerns.
func (h *history) add(client int, call int64, d deed, out string, parts ...string) {
	ret := h.tick.now()
	if out == unknown {
		ret = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	kind, _, _ := strings.Cut(out, " dfr_")
	h.ends[strings.TrimSpace(d.do+" "+kind)]++
	for _, p := range parts {
		h.parts[p] = append(h.parts[p], porcupine.Operation{ClientId: client, Input: d, Call: call, Output: out, Return: ret})
	}
}

// specification makes a model for porcupine. State is a comparable value, so that states are compared by ==.
func specification[S comparable](begin S, step func(S, deed, string) (S, bool)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return begin },
		Step: func(state, in, out any) (bool, any) {
			next, ok := step(state.(S), in.(deed), out.(string))
			return ok, next
		},
	}
}

// check gives the first part that has no order, "" if all have one.
func (h *history) check(m porcupine.Model) string {
	for _, part := range slices.Sorted(maps.Keys(h.parts)) {
		if got := porcupine.CheckOperationsTimeout(m, h.parts[part], time.Minute); got != porcupine.Ok {
			return fmt.Sprintf("%s: %s\n%s", part, got, h.shown(part))
		}
	}
	return ""
}

// shown is a part as text, in the order of calls.
func (h *history) shown(part string) string {
	var b strings.Builder
	list := slices.Clone(h.parts[part])
	slices.SortFunc(list, func(a, c porcupine.Operation) int { return int(a.Call - c.Call) })
	for _, o := range list {
		d, end := o.Input.(deed), fmt.Sprint(o.Return)
		if o.Return == math.MaxInt64 {
			end = "never"
		}
		fmt.Fprintf(&b, "  client %2d  %6d to %6s  %s %s %d -> %v\n", o.ClientId, o.Call, end, d.do, d.arg, d.n, o.Output)
	}
	return b.String()
}

// world is a service on a real store, under a clock that stands still unless a client moves it.
type world struct {
	t       testing.TB
	store   *store.Store
	svc     *ops.Service
	clock   atomic.Int64
	h       *history  // of the round that runs
	commits *sync.Map // if not nil: when commits began, by call_id; permits are taken down as beginning then, unsaid
	unsaid  bool      // requests do not say when they begin and end, as a transport has to
	noReads bool      // grants are not listed
	noLoss  bool      // every answer arrives
	held    *kills    // if not nil: permits are held until one more kill of their target has returned
	rounds  int
}

func (w *world) now() time.Time { return time.Unix(1_900_000_000, w.clock.Load()).UTC() }

// How long things last in a world.
const (
	pendingFor  = time.Minute
	approvedFor = time.Hour
)

// tools is a chain that answers with what the first segment of the tool says.
type tools struct{}

func (tools) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	name, _, _ := strings.Cut(c.ToolID, "/")
	effect, ok := sdk.ParseEffect(strings.ToUpper(name))
	if !ok {
		return sdk.Verdict{}, fmt.Errorf("no such effect: %q", name)
	}
	return sdk.Verdict{Effect: effect, Code: "TEST"}, nil
}

// newWorld opens a store in a new directory. Layers lie between store and service, the last one outermost.
func newWorld(t testing.TB, layers ...func(ops.Store) ops.Store) *world {
	w := &world{t: t, h: newHistory()}
	var err error
	w.store, err = store.Open(store.Settings{Dir: t.TempDir(), Now: w.now, NewID: func() string {
		return "sto_test"
	}, Secret: []byte("secret"), Log: t.Logf,
		// the clock leaps: no disk is that slow
		OnFatal: func(err error) { t.Errorf("fatal: %v", err) }, Stall: 10_000 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var st ops.Store = w.store
	for _, layer := range layers {
		st = layer(st)
	}
	t.Cleanup(func() {
		replay(t, w.store, st)
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	gen := &ops.Generation{Policy: "p", Args: "digest",
		Scan: &chain.ScanChain{Budget: time.Minute, Now: time.Now,
			Steps: []chain.ScanStep{{Name: "none", Scanner: finds{}}}},
		Authorize: &chain.Authorizer{Budget: time.Minute, Now: time.Now, Default: sdk.Deny,
			Steps: []chain.Step{{Name: "tool", Inline: true, OnError: sdk.Deny, Checker: tools{}}}}}
	w.svc = ops.New(ops.Settings{Store: st, Generation: func() *ops.Generation {
		return gen
	}, Pepper: []byte("pepper"), Now: w.now, Random: func(p []byte) { _, _ = rand.Read(p) },
		Limits: config.Limits{Name: 256, PendingPerKey: 1_000_000, LongPollsPerKey: 64, Grants: 1_000_000},
		Defers: config.Defers{TTL: config.Duration(pendingFor), MaxTTL: config.Duration(time.Hour),
			ApprovedTTL: config.Duration(approvedFor)}, Observer: silent{}})
	return w
}

func (w *world) newKey(name, preset string) *ops.NewKey {
	w.t.Helper()
	k, err := w.svc.CreateKey(context.Background(), ops.KeySpec{Name: name, Preset: preset}, admin)
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// request is what a client sends.
type request struct {
	key, op, body string
	idem          string              // Idempotency-Key
	sent          func(answer string) // runs as the answer goes out, while the request still counts as in flight
	flight        ops.Flight
}

// flight counts one request of a world.
type flight struct {
	svc   *ops.Service
	leave func()
}

func (f *flight) TakeOff() {
	g := f.svc.Enter()
	f.leave = func() { f.svc.Leave(g) }
}

// send makes one request as a transport makes it: authenticated, run, counted in flight from its commit on. The error
// is its code.
func (w *world) send(r request) (answer, code_ string) {
	f := &flight{svc: w.svc, leave: func() {}}
	if !w.unsaid && w.commits == nil {
		r.flight = f
	}
	answer, err := w.run(r)
	defer func() { f.leave() }()
	if r.sent != nil {
		r.sent(answer)
	}
	return answer, code(err)
}

func (w *world) run(r request) (string, error) {
	key, err := w.svc.KeyOf(r.key)
	if err != nil {
		return "", err
	}
	var doc exact.Doc
	if err := doc.Parse(r.body, exact.DefaultLimits); err != nil {
		return "", err
	}
	i := slices.IndexFunc(ops.Table, func(o ops.Op) bool { return o.Name == r.op })
	resp, err := w.svc.Run(&ops.Table[i], &ops.Request{Ctx: context.Background(), Key: key,
		Who:   store.Who{Principal: key.ID, Method: "api_key", Surface: "http"},
		Start: w.now(), Body: doc.Root(), Raw: r.body, Idempotency: r.idem, Flight: r.flight})
	if again, ok := err.(*ops.Replay); ok {
		resp, err = again.Response(), nil
	}
	if err != nil {
		return "", err
	}
	return string(resp.AppendJSON(nil)), nil
}

// patient makes a request whose answer is lost now and then, and mostly makes it again until an answer arrives. The
// request has an identity (call_id or Idempotency-Key), so all of its tries are one operation. With no answer at all
// its outcome is unknown.
func (w *world) patient(rng *mrand.Rand, r request) (answer, code string) {
	answer, code, _ = w.again(rng, r)
	return answer, code
}

// again is patient, and says whether the answer is to a request that was sent before.
func (w *world) again(rng *mrand.Rand, r request) (answer, code string, again bool) {
	for ; ; again = true {
		answer, code = w.send(r)
		switch lost := !w.noLoss && rng.IntN(6) == 0; {
		case !lost && code != string(sdk.CodeAuditUnavailable):
			return answer, code, again
		case rng.IntN(4) == 0:
			return "", unknown, again
		}
	}
}

// everybody lets all clients work at once.
func (w *world) everybody(work func(client int, rng *mrand.Rand)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			rng := mrand.New(mrand.NewPCG(uint64(w.rounds), uint64(c)))
			<-start
			work(c, rng)
		})
	}
	close(start)
	wg.Wait()
}

// advance moves the clock; parts are those of the round.
func (w *world) advance(client int, by time.Duration, parts []string) {
	call := w.h.tick.now()
	w.clock.Add(int64(by))
	w.h.add(client, call, deed{do: "later", n: int64(by)}, "", parts...)
}

// account is what histories cost.
type account struct {
	rounds, operations int
	ran, checked       time.Duration
	ends               map[string]int
}

// histories plays rounds of one kind and checks each; it gives the first one that has no order.
func (w *world) histories(rounds int, m porcupine.Model, round func(w *world)) (account, string) {
	a := account{ends: map[string]int{}}
	for range rounds {
		w.h = newHistory()
		w.rounds++
		began := time.Now()
		round(w)
		ended := time.Now()
		a.rounds++
		a.operations += w.h.count
		for end, n := range w.h.ends {
			a.ends[end] += n
		}
		a.ran += ended.Sub(began)
		wrong := w.h.check(m)
		a.checked += time.Since(ended)
		if wrong != "" {
			return a, wrong
		}
	}
	return a, ""
}

// patience is how often the rounds are played again until each end has been met.
const patience = 500

// requireOrder fails the test unless every history has an order, and all of these ends were met. Chance may withhold
// one from any number of rounds, so they go on until it is met.
func requireOrder(t *testing.T, w *world, rounds int, m porcupine.Model, round func(w *world), ends ...string) {
	t.Helper()
	a, wrong := w.histories(rounds, m, round)
	missing := func() bool { return slices.ContainsFunc(ends, func(end string) bool { return a.ends[end] == 0 }) }
	for range patience {
		if wrong != "" || !missing() {
			break
		}
		var more account
		more, wrong = w.histories(rounds, m, round)
		a.rounds, a.operations, a.ran, a.checked = a.rounds+more.rounds, a.operations+more.operations, a.ran+more.ran,
			a.checked+more.checked
		for end, n := range more.ends {
			a.ends[end] += n
		}
	}
	t.Logf("%d clients, %d rounds, %d operations in %v, checked in %v", clients, a.rounds, a.operations,
		a.ran.Round(time.Millisecond), a.checked.Round(time.Millisecond))
	if wrong != "" {
		t.Errorf("round %d has no order: %s", a.rounds, wrong)
	}
	for _, end := range ends {
		if a.ends[end] == 0 {
			t.Errorf("no operation ended as %q: the histories are too tame: %v", end, a.ends)
		}
	}
}

// requireNoOrder fails the test unless the planted bug shows in one of so many rounds.
func requireNoOrder(t *testing.T, w *world, rounds int, m porcupine.Model, round func(w *world)) {
	t.Helper()
	a, wrong := w.histories(rounds, m, round)
	if wrong == "" {
		t.Fatalf("the planted bug was not noticed in %d rounds of %d operations", a.rounds, a.operations)
	}
	first, _, _ := strings.Cut(wrong, "\n")
	t.Logf("caught in round %d after %d operations: %s", a.rounds, a.operations, first)
	if os.Getenv("YETT_SHOW") != "" {
		t.Log(wrong)
	}
}

// unsure is a store whose disk stalls now and then: what was asked for is refused as not recorded, and may have been.
type unsure struct {
	ops.Store
	n atomic.Uint64
}

func newUnsure(s ops.Store) ops.Store { return &unsure{Store: s} }

// Commit refuses one write in thirty, every other one of these after it has been done.
func (s *unsure) Commit(ctx context.Context, cmd store.Command) error {
	refused := &sdk.Error{Code: sdk.CodeAuditUnavailable, Op: "commit", Msg: "the disk has stalled"}
	switch cmd.(type) {
	case *store.Decide, *store.Approve, *store.AddGrant, *store.RevokeGrant, *store.RevokeKey:
	default:
		return s.Store.Commit(ctx, cmd)
	}
	switch s.n.Add(1) % 60 {
	case 17:
		return refused
	case 43:
		if err := s.Store.Commit(ctx, cmd); err != nil {
			return err
		}
		return refused
	}
	return s.Store.Commit(ctx, cmd)
}
