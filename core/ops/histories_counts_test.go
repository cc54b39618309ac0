package ops_test

import (
	"fmt"
	mrand "math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit"
)

// counted is a grant whose uses are counted from outside.
type counted struct {
	agent    string
	n        int64
	attempts int
	permits  atomic.Int64
}

// spendOnce asks for one call until it is answered, and counts a PERMIT. Lost answers are asked for again.
func (w *world) spendOnce(p *people, g *counted, n int, rng *mrand.Rand) {
	body := fmt.Sprintf(`{"agent_id":%q,"tool_id":"defer/x","args":{"n":%d},"call_id":"%s %d"}`, g.agent, n, g.agent, n)
	for {
		answer, got := w.send(request{key: p.agent.Value, op: "authorize", body: body})
		switch lost := !w.noLoss && rng.IntN(8) == 0; {
		case got == "audit_unavailable" || lost:
			continue
		case got != "" || member(answer, "effect") == "DENY":
			w.t.Errorf("%s: %s %s", g.agent, got, answer)
		case member(answer, "effect") == "PERMIT":
			g.permits.Add(1)
		}
		return
	}
}

// spendAll lets all clients spend from all of the grants, from each so often.
func (w *world) spendAll(p *people, batch []*counted, first int, often func(g *counted) int) (calls int) {
	most := 0
	for _, g := range batch {
		calls += often(g)
		most = max(most, often(g))
	}
	w.everybody(func(c int, rng *mrand.Rand) {
		for j := range most {
			for i, g := range batch {
				if j < often(g) && (i+j)%clients == c {
					w.spendOnce(p, g, first+j, rng)
				}
			}
		}
	})
	return calls
}

// grantBatch makes so many grants.
func (w *world) grantBatch(p *people, size int) []*counted {
	batch := make([]*counted, size)
	for i := range batch {
		n := []int64{1, 2, 100}[i%3]
		g := &counted{agent: fmt.Sprintf("counted %d-%d", w.rounds, i), n: n, attempts: int(n) + 8}
		if i%4 == 3 {
			g.attempts = int(n+1) / 2 // some is left
		}
		batch[i] = g
		if _, got := w.send(request{key: p.granter.Value, op: "standing_grant_add",
			body: fmt.Sprintf(`{"agent_id":%q,"tool_pattern":"defer/*","ttl_seconds":2592000,"max_uses":%d}`, g.agent,
				n)}); got != "" {
			w.t.Fatal(got)
		}
	}
	return batch
}

// listed is the uses of the newest grants, by agent.
func (w *world) listed(p *people, most int) map[string]int64 {
	answer, got := w.send(request{key: p.granter.Value, op: "standing_grant_list",
		body: fmt.Sprintf(`{"include_expired":true,"limit":%d}`, most)})
	if got != "" {
		w.t.Fatal(got)
	}
	out := map[string]int64{}
	for _, row := range strings.Split(answer, `{"id":`)[1:] {
		_, uses, _ := strings.Cut(row, `"uses":`)
		uses, _, _ = strings.Cut(uses, ",")
		n, err := strconv.ParseInt(uses, 10, 64)
		if err != nil {
			w.t.Fatalf("uses: %v in %s", err, row)
		}
		out[member(row, "agent_id")] = n
	}
	return out
}

// grantsOff spends from so many grants and gives the first thing that is wrong, and the number of calls.
func grantsOff(w *world, grants int) (calls int, wrong string) {
	p := newPeople(w)
	const size = 25
	for range (grants + size - 1) / size {
		w.rounds++
		w.clock.Add(int64(time.Second)) // grants are listed newest first, to the millisecond
		batch := w.grantBatch(p, size)
		calls += w.spendAll(p, batch, 0, func(g *counted) int { return g.attempts })
		uses := w.listed(p, size)
		for _, g := range batch {
			permits := g.permits.Load()
			if want := min(g.n, int64(g.attempts)); permits != want || !w.noReads && uses[g.agent] != permits {
				return calls, fmt.Sprintf("%s of %d uses, asked for %d times: %d permits, listed with %d uses", g.agent, g.n,
					g.attempts, permits, uses[g.agent])
			}
		}
		// What is left can be spent, and no more.
		calls += w.spendAll(p, batch, 1000, func(g *counted) int {
			if g.attempts > int(g.n) {
				return 0
			}
			return int(g.n) - g.attempts + 3
		})
		for _, g := range batch {
			if permits := g.permits.Load(); permits != g.n {
				return calls, fmt.Sprintf("%s of %d uses: %d permits in the end", g.agent, g.n, permits)
			}
		}
	}
	return calls, ""
}

func TestGrantsAreNeverOverspent(t *testing.T) {
	grants := testkit.Rounds(full(100, 10_000), 20)
	began := time.Now()
	calls, wrong := grantsOff(newWorld(t), grants)
	if wrong != "" {
		t.Error(wrong)
	}
	t.Logf("%d grants of 1, 2 and 100 uses, %d calls and their retries in %v", grants, calls,
		time.Since(began).Round(time.Millisecond))
}

func TestCountCatchesAReadThenWriteCounter(t *testing.T) {
	off := func(gap bool, grants int) (int, string) {
		w := newWorld(t, func(s ops.Store) ops.Store { return &readThenWrite{Store: s, gap: gap, uses: map[string]uint64{}} })
		w.noLoss, w.noReads = true, true // it knows nothing of repeats, and lists show what it does not count
		return grantsOff(w, grants)
	}
	if calls, wrong := off(false, 100); wrong != "" {
		t.Errorf("without a gap, %d calls: %s", calls, wrong)
	}
	calls, wrong := off(true, 10_000) // it ends with the first that is off
	if wrong == "" {
		t.Fatalf("a counter that is read and then written was not noticed in %d calls", calls)
	}
	t.Log("caught: ", wrong)
}

// winnersOf lets eight racers at one deferred call: four approve, three deny, and one moves the clock past its end or
// asks where it stands. It gives who won, "" if not exactly one did, and what everybody was told.
func winnersOf(w *world, p *people, n int) (winner, told string) {
	answer, got := w.send(request{key: p.agent.Value, op: "authorize",
		body: fmt.Sprintf(`{"agent_id":"a","tool_id":"defer/x","args":{"race":%d}}`, n)})
	token := member(answer, "defer_token")
	if token == "" {
		w.t.Fatalf("not deferred: %s %s", got, answer)
	}
	status := func() string {
		answer, got := w.send(request{key: p.agent.Value, op: "poll_defer", body: fmt.Sprintf(`{"defer_token":%q}`, token)})
		return member(answer, "status") + got
	}
	var outs [8]string
	w.race(8, func(i int) {
		switch {
		case i < 7:
			boss := []string{p.boss.Value, p.second.Value}[i%2]
			answer, err := w.run(request{key: boss, op: "approve_defer",
				body: fmt.Sprintf(`{"defer_token":%q,"approved":%v}`, token, (i+n)%7 < 4)})
			outs[i] = ended(answer, err)
		case n%3 == 0:
			w.clock.Add(int64(pendingFor))
			outs[i] = "later"
		default:
			outs[i] = status()
		}
	})
	end := status()
	told = fmt.Sprint(outs, " ", end)
	winners := map[int]bool{} // by approver: one that answers the same again is told how its answer stands
	for i, out := range outs[:7] {
		switch out {
		case store.Approved, store.Denied:
			winners[i%2] = true
			if out != end {
				return "", told
			}
		case "already_resolved by " + end, "defer_expired":
			if out == "defer_expired" && end != store.Expired {
				return "", told
			}
		default:
			return "", told
		}
	}
	won := len(winners)
	if end == store.Expired && won == 0 || end != store.Expired && won == 1 {
		return end, told
	}
	return "", told
}

// race lets n racers start together.
func (w *world) race(n int, run func(i int)) {
	start, done := make(chan struct{}), make(chan struct{}, n)
	for i := range n {
		go func() {
			<-start
			run(i)
			done <- struct{}{}
		}()
	}
	close(start)
	for range n {
		<-done
	}
}

func TestADeferHasExactlyOneWinner(t *testing.T) {
	w := newWorld(t)
	p := newPeople(w)
	ends, races := map[string]int{}, testkit.Rounds(full(300, 5_000), 60)
	began := time.Now()
	for n := 0; n < races || len(ends) < 3 && n < patience*races; n++ { // chance may withhold an end from any number
		winner, told := winnersOf(w, p, n)
		if winner == "" {
			t.Fatalf("race %d has not exactly one winner: %s", n, told)
		}
		ends[winner]++
	}
	for _, end := range []string{store.Approved, store.Denied, store.Expired} {
		if ends[end] == 0 {
			t.Errorf("nobody won with %s: %v", end, ends)
		}
	}
	t.Logf("%d races of 8 in %v: %v", races, time.Since(began).Round(time.Millisecond), ends)
}

func TestWinnerCountCatchesADoubleWinner(t *testing.T) {
	w := newWorld(t, func(s ops.Store) ops.Store { return everybodyWins{s} })
	p := newPeople(w)
	for n := range plantedRounds {
		if winner, told := winnersOf(w, p, n); winner == "" {
			t.Log("caught: ", told)
			return
		}
	}
	t.Error("a store in which everybody wins was not noticed")
}
