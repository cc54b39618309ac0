package ops_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
)

// deferLife is the specification of one deferred call. "late" is the moment at which pending ones run out.
func deferLife(state string, e event) (string, bool) {
	switch e.in {
	case "late":
		if state == "pending" {
			return "expired", true
		}
		return state, true
	case "approve", "deny":
		to := map[string]string{"approve": "approved", "deny": "denied"}[e.in]
		switch state {
		case "pending":
			return to, e.out == to
		case "expired":
			return state, e.out == "defer_expired"
		}
		return state, e.out == "already_resolved by "+state
	case "redeem":
		if state == "approved" {
			return "consumed", e.out == "PERMIT APPROVAL_CONSUMED"
		}
		return state, e.out == "DENY APPROVAL_MISMATCH"
	}
	return state, e.out == state
}

// racers are eight at once on one deferred call.
var racers = []string{"approve", "approve", "deny", "deny", "late", "redeem", "redeem", "status"}

// deferHistory makes a deferred call and lets the racers at it, and then asks it for its end. Who is let go first goes
// round, and in every fourth history one of them is through before the others begin: so each end is seen whatever the
// scheduler prefers.
func deferHistory(b *bench, agent *ops.NewKey, bosses []*ops.NewKey, n int) []event {
	b.t.Helper()
	call := fmt.Sprintf(`{"agent_id":"a","tool_id":"defer","args":{"n":%d}`, n)
	asked, err := b.run(agent.Value, "authorize", call+"}")
	token := member(asked, "defer_token")
	if err != nil || token == "" {
		b.t.Fatalf("not deferred: %v %s", err, asked)
	}
	act := func(i int, in string) string {
		switch in {
		case "late":
			b.offset.Add(int64(61 * time.Second))
			return ""
		case "approve", "deny":
			answer, err := b.run(bosses[i].Value, "approve_defer",
				fmt.Sprintf(`{"defer_token":%q,"approved":%v}`, token, in == "approve"))
			return ended(answer, err)
		case "redeem":
			answer, err := b.run(agent.Value, "authorize", call+fmt.Sprintf(`,"defer_token":%q}`, token))
			return member(answer, "effect") + " " + member(answer, "reason_code") + code(err)
		}
		answer, err := b.run(agent.Value, "poll_defer", fmt.Sprintf(`{"defer_token":%q}`, token))
		return member(answer, "status") + code(err)
	}
	history := make([]event, 0, 2*len(racers))
	var mu sync.Mutex
	do := func(i int, in string) {
		e := event{call: b.tick.now(), in: in}
		e.out = act(i, in)
		e.ret = b.tick.now()
		mu.Lock()
		defer mu.Unlock()
		history = append(history, e)
	}
	ahead := -1
	if n%4 == 1 {
		ahead = n / 4 % len(racers)
		do(ahead, racerOf(ahead, n))
	}
	var wg sync.WaitGroup
	start := make(chan struct{})
	for k := range racers {
		i := (k + n) % len(racers)
		if i == ahead {
			continue
		}
		in := racerOf(i, n)
		wg.Go(func() { <-start; do(i, in) })
	}
	close(start)
	wg.Wait()
	for _, in := range []string{"redeem", "status", "redeem", "approve"} {
		do(len(bosses)-1, in) // the last of them has answered nothing before
	}
	return history
}

// racerOf is what the racer does in history n. Time passes in every fourth alone, else little would be left to race
// for.
func racerOf(i, n int) string {
	if racers[i] == "late" && n%4 != 0 {
		return "status"
	}
	return racers[i]
}

// ended is how an answer to a deferred call was taken; a loser is told who won.
func ended(answer string, err error) string {
	var e *sdk.Error
	if errors.As(err, &e) && e.Code == sdk.CodeAlreadyResolved {
		return string(e.Code) + " by " + e.More["resolution"]
	}
	return member(answer, "status") + code(err)
}

// winners counts what can only happen once: the resolutions and the permits.
func winners(history []event) (resolved, permits int) {
	for _, e := range history {
		switch {
		case e.out == "approved" && e.in == "approve", e.out == "denied" && e.in == "deny":
			resolved++
		case strings.HasPrefix(e.out, "PERMIT"):
			permits++
		}
	}
	return resolved, permits
}

func raceBench(t *testing.T, wrap func(ops.Store) ops.Store) (b *bench, agent *ops.NewKey, bosses []*ops.NewKey) {
	b = newBench(t, wrap)
	for i := range 5 {
		bosses = append(bosses, b.newKey(fmt.Sprint("boss ", i), "approver"))
	}
	return b, b.newKey("agent", "agent"), bosses
}

func TestOneWinnerOfADefer(t *testing.T) {
	b, agent, bosses := raceBench(t, nil)
	ends := map[string]int{}
	for n := range testkit.Rounds(full(500, 5_000), 100) {
		h := deferHistory(b, agent, bosses, n)
		resolved, permits := winners(h)
		if resolved > 1 || permits > 1 || !linearizable(deferLife, "pending", h) {
			t.Fatalf("defer %d: %d winners, %d permits: %+v", n, resolved, permits, h)
		}
		for _, e := range h {
			if e.in == "status" {
				ends[e.out]++
			}
		}
	}
	if ends["denied"] == 0 || ends["consumed"] == 0 {
		t.Errorf("the races have only these ends: %v", ends)
	}
	t.Log(ends)
}

// twice is a store that permits a second redemption of what was redeemed once.
type twice struct {
	ops.Store
	mu    sync.Mutex
	spent map[string]store.Decision
}

func (s *twice) Commit(ctx context.Context, cmd store.Command) error {
	err := s.Store.Commit(ctx, cmd)
	if d, ok := cmd.(*store.Decide); ok && err == nil && d.Redeem.Token != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		if d.Out.Effect == sdk.Permit {
			s.spent[d.Redeem.Token] = d.Out
		} else if before, ok := s.spent[d.Redeem.Token]; ok {
			d.Out = before
		}
	}
	return err
}

func TestWinnerCheckCatchesADoubleWinner(t *testing.T) {
	b, agent, bosses := raceBench(t, func(s ops.Store) ops.Store {
		return &twice{Store: s, spent: map[string]store.Decision{}}
	})
	for n := range 200 {
		h := deferHistory(b, agent, bosses, n)
		if _, permits := winners(h); permits > 1 {
			if linearizable(deferLife, "pending", h) {
				t.Fatalf("two permits of one approval pass for one history: %+v", h)
			}
			return
		}
	}
	t.Fatal("the planted double winner never won")
}
