package ops_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit"
)

// life is one key's life as its users saw it.
type life struct {
	id, value string
	revoked   atomic.Int64 // when revoke had returned; 0 before
	lastIn    atomic.Int64 // when the last request began that was let in
	late      atomic.Int64 // requests that began after revoke had returned
}

func (l *life) letIn(began int64) {
	for {
		last := l.lastIn.Load()
		if began <= last || l.lastIn.CompareAndSwap(last, began) {
			return
		}
	}
}

// revokeHistory lets 64 clients authorize with keys that are revoked under their hands. It gives the number of requests
// that were let in although they began after the revoke of their key had returned, and of requests that began so.
func revokeHistory(b *bench, authorizes, revokes int) (violations, late int64) {
	const slots = 16
	var live, dead [slots]atomic.Pointer[life]
	n := 0
	fresh := func() *life {
		n++
		k := b.newKey(fmt.Sprint("key ", n), "agent")
		return &life{id: k.Key.ID, value: k.Value}
	}
	for i := range live {
		live[i].Store(fresh())
		dead[i].Store(live[i].Load())
	}
	var left atomic.Int64
	left.Store(int64(authorizes))
	var wg sync.WaitGroup
	for c := range 64 {
		wg.Go(func() {
			for i := c; left.Add(-1) >= 0; i++ {
				from := &live
				if i%3 == 0 {
					from = &dead
				}
				b.use(from[i%slots].Load())
			}
		})
	}
	lives := []*life{}
	for i := range revokes {
		l := live[i%slots].Load()
		if err := b.svc.RevokeKey(context.Background(), l.id, admin); err != nil {
			b.t.Error(err)
		}
		l.revoked.Store(b.tick.now())
		dead[i%slots].Store(l)
		b.use(l)
		live[i%slots].Store(fresh())
		lives = append(lives, l)
	}
	wg.Wait()
	for _, l := range lives {
		if l.lastIn.Load() > l.revoked.Load() {
			violations++
		}
		late += l.late.Load()
	}
	return violations, late
}

// use is one authorize with that key, noted in its life.
func (b *bench) use(l *life) {
	began := b.tick.now()
	if r := l.revoked.Load(); r != 0 && began > r {
		l.late.Add(1)
	}
	answer, err := b.run(l.value, "authorize", `{"agent_id":"a","tool_id":"permit"}`)
	switch {
	case err == nil && member(answer, "effect") == "PERMIT":
		l.letIn(began)
	case code(err) != "key_revoked":
		b.t.Errorf("neither permitted nor refused as revoked: %v %s", err, answer)
	}
}

func TestNoPermitAfterRevokeReturned(t *testing.T) {
	b := newBench(t, nil)
	violations, late := revokeHistory(b, full(20_000, 1_000_000), full(200, 10_000))
	if violations != 0 {
		t.Errorf("%d keys let somebody in after their revoke had returned", violations)
	}
	if late < 100 {
		t.Errorf("only %d requests began after a revoke: the test looks at nothing", late)
	}
	t.Logf("%d requests began after a revoke and were refused", late)
}

// staleCache is what must never be put in front of the store: it remembers keys for so many look-ups.
type staleCache struct {
	ops.Store
	mu   sync.Mutex
	keys map[string]*store.Key
	left int
}

func (c *staleCache) Key(id string) *store.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		c.keys, c.left = map[string]*store.Key{}, 500
	}
	if k := c.keys[id]; k != nil {
		return k
	}
	k := c.Store.Key(id)
	if k == nil {
		return nil
	}
	frozen := reflect.New(reflect.TypeFor[store.Key]()) // a copy does not see what happens to the key
	frozen.Elem().Set(reflect.ValueOf(k).Elem())
	c.keys[id] = frozen.Interface().(*store.Key)
	return c.keys[id]
}

// Commit keeps a key from being copied while its revoke is written: the copy would be a race, and that is not what is
// planted.
func (c *staleCache) Commit(ctx context.Context, cmd store.Command) error {
	if _, revokes := cmd.(*store.RevokeKey); revokes {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	return c.Store.Commit(ctx, cmd)
}

func TestRevokeCheckCatchesAStaleCache(t *testing.T) {
	b := newBench(t, func(s ops.Store) ops.Store { return &staleCache{Store: s} })
	violations, _ := revokeHistory(b, 5_000, 50)
	if violations == 0 {
		t.Fatal("a cache that lets revoked keys in was not noticed")
	}
	t.Logf("caught: %d keys", violations)
}

// keyLife is the specification of one key: none → live → dead.
func keyLife(state string, e event) (string, bool) {
	switch e.in {
	case "create":
		return "live", state == "none" && e.out == ""
	case "revoke":
		if state == "live" {
			return "dead", e.out == ""
		}
		return state, state == "dead" && e.out == "conflict"
	}
	want := map[string]string{"live": "PERMIT", "dead": "key_revoked", "none": "unauthenticated"}
	return state, e.out == want[state]
}

// keyHistory is the history of one key: six users, two revokers.
func keyHistory(b *bench, n int) []event {
	var mu sync.Mutex
	var history []event
	do := func(in string, fn func() string) {
		e := event{call: b.tick.now(), in: in}
		e.out = fn()
		e.ret = b.tick.now()
		mu.Lock()
		defer mu.Unlock()
		history = append(history, e)
	}
	var k *ops.NewKey
	do("create", func() string { k = b.newKey(fmt.Sprint("one ", n), "agent"); return "" })
	use := func() string {
		answer, err := b.run(k.Value, "authorize", `{"agent_id":"a","tool_id":"permit"}`)
		if err != nil {
			return code(err)
		}
		return member(answer, "effect")
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 4 {
				do("use", use)
				if i < 2 {
					do("revoke", func() string { return code(b.svc.RevokeKey(context.Background(), k.Key.ID, admin)) })
				}
			}
		})
	}
	wg.Wait()
	return history
}

func TestKeyHistoriesAreLinearizable(t *testing.T) {
	b := newBench(t, nil)
	for n := range testkit.Rounds(full(100, 5_000), 20) {
		if h := keyHistory(b, n); !linearizable(keyLife, "none", h) {
			t.Fatalf("history %d has no order: %+v", n, h)
		}
	}
	stale := newBench(t, func(s ops.Store) ops.Store { return &staleCache{Store: s} })
	for n := range 100 {
		if !linearizable(keyLife, "none", keyHistory(stale, n)) {
			return
		}
	}
	t.Error("a cache that lets revoked keys in was not noticed")
}
