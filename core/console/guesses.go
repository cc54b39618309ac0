package console

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of guessing passwords.
const (
	guessesPerMinute = 5
	guessWindow      = time.Minute
	addressGuesses   = 20 // a minute, of one address on all accounts
	accountGuesses   = 50 // in slowWindow, of one account from all addresses together
	slowWindow       = time.Hour
	maxTracked       = 10_000 // of what is counted; beyond, the subjects with the fewest tries are forgotten
)

// bound is how many tries there are in a window.
type bound struct {
	most   int
	window time.Duration
}

// subject is one thing that a try counts against.
type subject struct {
	hash [32]byte
	bound
}

func subjectOf(b bound, parts ...string) subject {
	return subject{sha256.Sum256([]byte(strings.Join(parts, "\x00"))), b}
}

// subjects are what a try from an unknown device counts against. Whoever guesses at one address spends the tries of
// that address, and of the account far slower. Names that nobody has are counted like the others: what is refused must
// not tell which names exist.
func subjects(account, address string) []subject {
	return []subject{
		subjectOf(bound{guessesPerMinute, guessWindow}, "pair", account, address),
		subjectOf(bound{addressGuesses, guessWindow}, "address", address),
		subjectOf(bound{accountGuesses, slowWindow}, "account", account),
	}
}

// deviceSubjects are what a try from a device counts against on which the account has signed in before: itself alone,
// so that nobody else's guesses keep its owner out.
func deviceSubjects(account, device string) []subject {
	return []subject{subjectOf(bound{guessesPerMinute, guessWindow}, "device", account, device),
		subjectOf(bound{accountGuesses, slowWindow}, "device, slowly", account, device)}
}

// guesses counts tries.
type guesses struct {
	mu   sync.Mutex
	seen map[[32]byte]*tries
}

// tries are those of one subject that its window still holds, in order.
type tries struct {
	at []time.Time
	bound
}

func newGuesses() *guesses { return &guesses{seen: map[[32]byte]*tries{}} }

// countTry counts a try against all subjects before it is made, so that tries side by side cannot outrun the count.
// When one has had its tries, nothing is counted and the answer is how long to wait.
func (g *guesses) countTry(now time.Time, subjects []subject) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.seen) > maxTracked-len(subjects) {
		g.forget(now)
		g.evict(maxTracked - maxTracked/10)
	}
	for _, s := range subjects {
		if had := g.of(s); had.recent(now) >= s.most {
			return had.at[0].Add(s.window).Sub(now)
		}
	}
	for _, s := range subjects {
		had := g.of(s)
		had.at = append(had.at, now)
		g.seen[s.hash] = had
	}
	return 0
}

func (g *guesses) of(s subject) *tries {
	if had := g.seen[s.hash]; had != nil {
		return had
	}
	return &tries{bound: s.bound}
}

// giveBack takes a try off that was right.
func (g *guesses) giveBack(at time.Time, subjects []subject) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range subjects {
		had := g.of(s)
		if i := slices.Index(had.at, at); i >= 0 {
			had.at = slices.Delete(had.at, i, i+1)
		}
	}
}

func (g *guesses) forget(now time.Time) {
	for hash, had := range g.seen {
		if had.recent(now) == 0 {
			delete(g.seen, hash)
		}
	}
}

// evict leaves at most so many subjects, those with the most tries: who comes from ever new networks must not keep
// everybody else out, and an account that many of them guess at stays counted.
func (g *guesses) evict(most int) {
	if len(g.seen) <= most {
		return
	}
	byTries := slices.SortedFunc(maps.Keys(g.seen), func(a, b [32]byte) int {
		return len(g.seen[a].at) - len(g.seen[b].at)
	})
	for _, hash := range byTries[:len(byTries)-most] {
		delete(g.seen, hash)
	}
}

// recent drops the tries that are out of the window and counts the others.
func (t *tries) recent(now time.Time) int {
	for len(t.at) > 0 && now.Sub(t.at[0]) >= t.window {
		t.at = t.at[1:]
	}
	return len(t.at)
}

// recordedPerMinute bounds what refused sign-ins add to the audit log. How many were left out is in the next record.
const recordedPerMinute = 30

// notes decides which refusals are recorded.
type notes struct {
	mu     sync.Mutex
	since  time.Time
	count  int
	behind int
}

// countRefusal says whether this refusal is recorded, and how many before it were not.
func (n *notes) countRefusal(now time.Time) (record bool, unrecorded int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if age := now.Sub(n.since); n.since.IsZero() || age >= guessWindow || age < 0 {
		n.since, n.count = now, 0
	}
	if n.count >= recordedPerMinute {
		n.behind++
		return false, 0
	}
	n.count++
	unrecorded, n.behind = n.behind, 0
	return true, unrecorded
}

// lost counts refusals whose record did not come about.
func (n *notes) lost(count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.behind += count
}

func (n *notes) missed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.behind
}
