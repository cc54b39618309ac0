package ops_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/places"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// A key that has every turn waits for itself: another key's request has one at once, and a kill waits for none.
func TestTurnsByKey(t *testing.T) {
	s, b := ops.New(ops.Settings{Turns: 1}), newBench(t, nil)
	decide, kill, list := opNamed(t, "authorize"), opNamed(t, "kill"), opNamed(t, "approvals_list")
	keys := map[string]*store.Key{}
	for name, preset := range map[string]string{"greedy": "operator", "other": "agent"} {
		keys[name] = b.store.Key(b.newKey(name, preset).Key.ID)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	request := func(key string) *ops.Request { return &ops.Request{Key: keys[key], Ctx: gone} }
	first := request("greedy")
	if err := s.Begin(decide, first, 10); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		op   *ops.Op
		key  string
		body int
		want sdk.Code
	}{
		"a call":                      {decide, "greedy", 10, sdk.CodeOverloaded},
		"a list":                      {list, "greedy", 0, sdk.CodeOverloaded},
		"a kill":                      {kill, "greedy", 10, ""},
		"a kill that is hard to read": {kill, "greedy", 1 << 20, sdk.CodeOverloaded},
		"another key's call":          {decide, "other", 10, ""},
	} {
		r := request(c.key)
		err := s.Begin(c.op, r, c.body)
		var e *sdk.Error
		if errors.As(err, &e); err == nil && c.want != "" || err != nil && (e == nil || e.Code != c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		r.End()
		r.End()
	}
	second := request("other")
	if err := s.Begin(decide, second, 10); err != nil {
		t.Error(err)
	}
	if err := s.Begin(kill, request("other"), 10); err == nil {
		t.Error("a kill needs no turn that its key may not ask for")
	}
	second.End()
	greedy := keys["greedy"].ID
	if done, err := s.Parsing(gone, greedy, 1<<10); err != nil {
		t.Errorf("a short line: %v", err)
	} else {
		done()
	}
	if _, err := s.Parsing(gone, greedy, 1<<20); err == nil {
		t.Error("a long line of the key that has every turn is parsed")
	}
	first.End()
	if done, err := s.Parsing(gone, greedy, 1<<20); err != nil {
		t.Errorf("the turn was not given back: %v", err)
	} else {
		done()
	}
}

// probing is a step that says whether the call that it is asked about has a turn.
type probing struct {
	has  func(key string) bool
	said *[]bool
	look bool // as dear rules do
}

func (p probing) Check(ctx context.Context, c *chain.Call) (sdk.Verdict, error) {
	if p.look {
		if err := c.Bound.Look(ctx); err != nil {
			return sdk.Verdict{}, err
		}
		defer c.Bound.Release()
	}
	*p.said = append(*p.said, p.has(c.KeyID))
	return sdk.Verdict{Effect: sdk.Permit, Code: "TEST"}, nil
}

// committing says whether a call has a turn when it is to be recorded.
type committing struct {
	ops.Store
	on func(cmd store.Command)
}

func (c *committing) Commit(ctx context.Context, cmd store.Command) error {
	c.on(cmd)
	return c.Store.Commit(ctx, cmd)
}

// A call that waits for somebody else, or works for long, keeps no other one of its key waiting: its turn ends before.
func TestTurnsEndBeforeWaits(t *testing.T) {
	var b *bench
	decide, most := opNamed(t, "authorize"), runtime.GOMAXPROCS(0)
	has := func(key string) bool {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		var taken []*ops.Request
		for range most {
			r := &ops.Request{Key: &store.Key{ID: key}, Ctx: gone}
			if b.svc.Begin(decide, r, 0) == nil {
				taken = append(taken, r)
			}
		}
		for _, r := range taken {
			r.End()
		}
		return len(taken) < most
	}
	var said []bool
	b = newBench(t, func(s ops.Store) ops.Store {
		return &committing{s, func(cmd store.Command) {
			if d, ok := cmd.(*store.Decide); ok {
				said = append(said, has(d.Key.ID))
			}
			if read, ok := cmd.(*store.ReadAction); ok && has(read.Key.ID) {
				t.Error("an action is read in a turn")
			}
		}}
	})
	key := b.newKey("agent", "agent")
	long := places.New(places.Rules{Most: 1, Queue: -1})
	for name, c := range map[string]struct {
		step chain.Step
		want bool
	}{
		"rules":                {chain.Step{Inline: true, Checker: probing{has, &said, false}}, true},
		"rules that take long": {chain.Step{Inline: true, Checker: probing{has, &said, true}}, false},
		"a module":             {chain.Step{Checker: probing{has, &said, false}}, false},
		"a process":            {chain.Step{Beside: true, Checker: probing{has, &said, false}}, false},
	} {
		said = nil
		c.step.Name = "s"
		b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Deny, Places: long, Steps: []chain.Step{c.step}})
		var doc exact.Doc
		if err := doc.Parse(`{"agent_id":"a","tool_id":"x"}`, exact.DefaultLimits); err != nil {
			t.Fatal(err)
		}
		k := b.store.Key(key.Key.ID)
		r := &ops.Request{Ctx: context.Background(), Key: k, Who: store.Who{Principal: k.ID}, Start: b.now(),
			Body: doc.Root()}
		if err := b.svc.Begin(decide, r, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := b.svc.Run(decide, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(said, []bool{c.want, false}) {
			t.Errorf("%s: has a turn in the step, at the commit: %v, want %v, false", name, said, c.want)
		}
		if has(k.ID) {
			t.Errorf("%s: the turn did not end", name)
		}
	}
}

// probe is a scanner that says whether the key whose text it is has a turn.
type probe struct {
	has  func(key string) bool
	said *[]bool
}

func (p probe) Scan(_ context.Context, in *chain.Input) ([]sdk.Finding, error) {
	*p.said = append(*p.said, p.has(in.KeyID))
	return nil, nil
}
func (probe) About() chain.About { return chain.About{} }

// A text is read in a turn, and scanners are asked behind it.
func TestTextsAreReadInATurn(t *testing.T) {
	b := newBench(t, nil)
	k := b.store.Key(b.newKey("agent", "agent").Key.ID)
	has := func(key string) bool {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		var taken []*ops.Request
		for range runtime.GOMAXPROCS(0) {
			r := &ops.Request{Key: &store.Key{ID: key}, Ctx: gone}
			if b.svc.Begin(opNamed(t, "scan_output"), r, 0) == nil {
				taken = append(taken, r)
			}
		}
		for _, r := range taken {
			r.End()
		}
		return len(taken) < runtime.GOMAXPROCS(0)
	}
	for _, c := range []struct {
		op, body string
		turn     bool
	}{
		{"scan_output", `{"agent_id":"a","tool_id":"x","output":"y"}`, true},
		{"scan_output", `{"agent_id":"a","tool_id":"x","output":"y","stream_id":"s","offset":0,"final":true}`, false},
		{"action_submit", `{"agent_id":"a","tool":"permit","params":{"y":1}}`, true},
	} {
		var said, early []bool
		b.force.Store(&ops.Generation{Policy: "p", Args: "digest", Authorize: b.gen.Authorize,
			Scan: &chain.ScanChain{Budget: time.Hour, Now: func() time.Time { early = append(early, has(k.ID)); return b.now() },
				Steps: []chain.ScanStep{{Name: "probe", OnError: sdk.Deny, Scanner: probe{has, &said}}}}})
		var doc exact.Doc
		if err := doc.Parse(c.body, exact.DefaultLimits); err != nil {
			t.Fatal(err)
		}
		r := &ops.Request{Ctx: context.Background(), Key: k, Who: store.Who{Principal: k.ID}, Start: b.now(),
			Body: doc.Root()}
		if err := b.svc.Begin(opNamed(t, c.op), r, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := b.svc.Run(opNamed(t, c.op), r); err != nil {
			t.Error(err)
		}
		if len(early) == 0 || early[0] != c.turn || len(said) == 0 || slices.Contains(said, true) || has(k.ID) {
			t.Errorf("%s: has a turn before it is read %v, at the scanner %v, behind it %v", c.body, early, said, has(k.ID))
		}
	}
}

// killing says whether a key has a turn when its kills are looked at.
type killing struct {
	ops.Store
	has  func(key string) bool
	said []bool
}

func (k *killing) Killed(key *store.Key, agent, session, tool string) *store.Kill {
	k.said = append(k.said, k.has(key.ID))
	return k.Store.Killed(key, agent, session, tool)
}

// Each of several outputs is read in a turn, and the next one waits for it as any request does.
func TestOutputsAreReadInTurns(t *testing.T) {
	var st *killing
	b := newBench(t, func(s ops.Store) ops.Store { st = &killing{Store: s}; return st })
	k := b.store.Key(b.newKey("agent", "agent").Key.ID)
	op := opNamed(t, "scan_output")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	st.has = func(key string) bool {
		var taken []*ops.Request
		for range runtime.GOMAXPROCS(0) {
			r := &ops.Request{Key: &store.Key{ID: key}, Ctx: gone}
			if b.svc.Begin(op, r, 0) == nil {
				taken = append(taken, r)
			}
		}
		for _, r := range taken {
			r.End()
		}
		return len(taken) < runtime.GOMAXPROCS(0)
	}
	var said []bool
	b.gen.Scan.Steps[0].Scanner = probe{st.has, &said}
	var doc exact.Doc
	body := `{"tool_id":"x","outputs":[{"output":"y"},{"output":"y"},{"output":"y"}]}`
	if err := doc.Parse(body, exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	request := func() *ops.Request {
		r := &ops.Request{Ctx: ctx, Key: k, Who: store.Who{Principal: k.ID}, Start: b.now(), Body: doc.Root()}
		if err := b.svc.Begin(op, r, 0); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if _, err := b.svc.Run(op, request()); err != nil || !slices.Equal(st.said, []bool{true, true, true}) ||
		!slices.Equal(said, []bool{false, false, false}) || st.has(k.ID) {
		t.Errorf("%v: had a turn for each output %v, at the scanner %v, behind it %v", err, st.said, said, st.has(k.ID))
	}
	var held []*ops.Request
	b.gen.Scan.Steps[0].Scanner = dawdler(func() { // takes all turns, and the caller goes away
		for {
			r := &ops.Request{Key: k, Ctx: gone}
			if b.svc.Begin(op, r, 0) != nil {
				break
			}
			held = append(held, r)
		}
		leave()
	})
	before := b.store.Seq()
	if got, err := b.svc.Run(op, request()); code(err) != string(sdk.CodeOverloaded) || b.store.Seq() != before {
		t.Errorf("no turn for the second output: %v %v", got, err)
	}
	for _, r := range held {
		r.End()
	}
}

// However an operation hands its request on, its turn is given back once: places that are given twice would bound
// nothing.
func TestTurnsAreGivenBackOnce(t *testing.T) {
	b := newBench(t, nil)
	key, most := b.newKey("agent", "agent"), runtime.GOMAXPROCS(0)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	free := func() int {
		var taken []*ops.Request
		for range most + 2 {
			r := &ops.Request{Key: &store.Key{ID: "filler"}, Ctx: gone}
			if b.svc.Begin(opNamed(t, "authorize"), r, 0) == nil {
				taken = append(taken, r)
			}
		}
		for _, r := range taken {
			r.End()
		}
		return len(taken)
	}
	id := ""
	for _, c := range [][2]string{{"authorize", `{"agent_id":"a","tool_id":"permit"}`},
		{"evaluate", `{"agent_id":"a","tool_id":"permit"}`}, {"gate_decide", `{"agent_id":"a","tool":"permit"}`},
		{"action_submit", `{"agent_id":"a","tool":"permit"}`}, {"action_start", "{}"}, {"scan_output", `{"agent_id":"a","tool_id":"x","output":"y"}`},
		{"scan_output", `{"tool_id":"x","outputs":[{"output":"y"},{"output":"z"}]}`}} {
		var doc exact.Doc
		if err := doc.Parse(c[1], exact.DefaultLimits); err != nil {
			t.Fatal(err)
		}
		op, k := opNamed(t, c[0]), b.store.Key(key.Key.ID)
		r := &ops.Request{Ctx: context.Background(), Key: k, Who: store.Who{Principal: k.ID}, Start: b.now(),
			Body: doc.Root(), Raw: c[1]}
		if c[0] == "action_start" {
			r.Params = []wire.Param{{Name: "id", Value: id, InPath: true}}
		}
		if err := b.svc.Begin(op, r, 0); err != nil {
			t.Fatal(err)
		}
		resp, err := b.svc.Run(op, r)
		r.End()
		if err != nil && c[0] != "scan_output" {
			t.Errorf("%s: %v", c[0], err)
		}
		if a, ok := resp.(*wire.Action); ok {
			id = a.ID
		}
		if n := free(); n != most {
			t.Fatalf("behind %s there are %d turns, want %d", c[0], n, most)
		}
	}
}
