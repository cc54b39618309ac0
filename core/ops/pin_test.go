package ops_test

import (
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// Whoever swaps generations closes the old one's plugins when its users are gone: a stream is one for as long as pieces
// of it may come, a call while it runs, and nothing that has ended stays behind.
func TestUsersOfAGeneration(t *testing.T) {
	wait := bang{entered: make(chan struct{}), wait: make(chan struct{})}
	b, store := scanBench(t, abi.StreamStateful, wait)
	key := b.newKey("k", "agent")
	users := func(want int64, when string) {
		t.Helper()
		if got := b.gen.Users(); got != want {
			t.Errorf("%s: %d users, want %d", when, got, want)
		}
	}
	users(0, "at the start")
	b.say(key, "open", 0, "a", "")
	b.say(key, "ended", 0, "a", last)
	b.say(key, "denied", 0, "a$", "")
	users(1, "one stream open, one ended, one denied")
	store.fail.Store(true)
	b.say(key, "lost", 0, "a", "")
	store.fail.Store(false)
	users(1, "a stream whose first piece was not recorded")

	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := b.run(key.Value, "scan_output", `{"tool_id":"t/x","agent_id":"a","output":"a?"}`); err != nil {
			t.Error(err)
		}
	}()
	<-wait.entered
	users(2, "while a text is scanned")

	old := b.gen
	next := &chain.Authorizer{Now: b.now, Budget: old.Authorize.Budget, Default: sdk.Deny}
	b.swap(next)
	b.say(key, "new", 0, "b", "")
	users(1, "the new one, with a stream on it")
	close(wait.wait)
	<-done
	if got := old.Users(); got != 1 {
		t.Errorf("the old one, with a stream from before: %d users, want 1", got)
	}
	b.say(key, "open", 1, "!", last)
	if got := old.Users(); got != 0 {
		t.Errorf("the old one at the end: %d users, want 0", got)
	}
}
