package console

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"
)

// Limits of guessing passwords.
const (
	guessesPerMinute = 5
	guessWindow      = time.Minute
	maxTracked       = 10_000 // accounts and addresses; when all are busy, nobody new gets a guess
)

// guesses counts tries by account and by address. Names that nobody has are counted like the others: what is refused must
// not tell which names exist.
type guesses struct {
	mu   sync.Mutex
	seen map[[32]byte][]time.Time // the tries of the last minute, by hash of what is counted
}

func newGuesses() *guesses { return &guesses{seen: map[[32]byte][]time.Time{}} }

// subjects are what one try counts against.
func subjects(account, address string) [][32]byte {
	return [][32]byte{sha256.Sum256([]byte("address\x00" + address)), sha256.Sum256([]byte("account\x00" + account))}
}

// take counts a try against all subjects before it is made, so that tries side by side cannot outrun the count. When one
// has had its tries, nothing is counted and the answer is how long to wait.
func (g *guesses) take(now time.Time, subjects [][32]byte) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.seen) > maxTracked-len(subjects) {
		g.forget(now)
		if len(g.seen) > maxTracked-len(subjects) {
			return guessWindow
		}
	}
	for _, s := range subjects {
		if tries := recent(g.seen[s], now); len(tries) >= guessesPerMinute {
			return tries[0].Add(guessWindow).Sub(now)
		}
	}
	for _, s := range subjects {
		g.seen[s] = append(recent(g.seen[s], now), now)
	}
	return 0
}

// giveBack takes a try off that was right.
func (g *guesses) giveBack(at time.Time, subjects [][32]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range subjects {
		if i := slices.Index(g.seen[s], at); i >= 0 {
			g.seen[s] = slices.Delete(g.seen[s], i, i+1)
		}
	}
}

func (g *guesses) forget(now time.Time) {
	for s, tries := range g.seen {
		if len(recent(tries, now)) == 0 {
			delete(g.seen, s)
		}
	}
}

// recent are the tries that are less than a minute old. Tries are in order.
func recent(tries []time.Time, now time.Time) []time.Time {
	for len(tries) > 0 && now.Sub(tries[0]) >= guessWindow {
		tries = tries[1:]
	}
	return tries
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

// take says whether this refusal is recorded, and how many before it were not.
func (n *notes) take(now time.Time) (record bool, unrecorded int) {
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
