package oauth_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/testkit/doortest"
)

// A key that the issuer takes away is unknown here after some minutes, though nothing asks for another.
func TestKeysAreRenewed(t *testing.T) {
	g := newRig(t)
	if status := g.status(g.good()); status != 200 {
		t.Fatalf("status %d", status)
	}
	g.set(func() { g.keys = g.keys[1:] })
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{9 * time.Minute, 200}, {2 * time.Minute, 401}} {
		g.bench.Advance(c.after)
		if status := g.status(g.good()); status != c.want {
			t.Errorf("%v later: status %d, want %d", c.after, status, c.want)
		}
	}
}

// A stream on which a client listens ends with the token that opened it.
func TestStreamEndsWithTheToken(t *testing.T) {
	g := newRig(t)
	r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, g.base+"/mcp/docs", nil))
	token := g.sign(header(nil), g.claims(object{"exp": time.Now().Add(-28 * time.Second).Unix()}))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "text/event-stream")
	ended := make(chan int, 1)
	go func() {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			ended <- 0
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body) // it is cut off
		ended <- resp.StatusCode
	}()
	select {
	case status := <-ended:
		if status == 401 {
			t.Error("the token was refused")
		}
	case <-time.After(20 * time.Second):
		t.Error("the stream goes on without a valid token")
	}
	if g.mu.Lock(); len(g.got) != 1 {
		t.Errorf("the server got %d requests", len(g.got))
	}
	g.mu.Unlock()
}

// A name means the key that has it now: one that came in the place of another is found.
func TestNameFollowsKeys(t *testing.T) {
	g := newRig(t)
	g.status(g.good())
	g.bench.Revoke(g.key)
	if status := g.status(g.good()); status != 401 {
		t.Errorf("status %d without a key", status)
	}
	_, err := g.bench.Service.CreateKey(t.Context(), ops.KeySpec{Name: "agents", Preset: "agent",
		ExpiresAt: g.bench.Now().Add(10 * time.Minute)}, doortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{2 * time.Second, 200}, {11 * time.Minute, 401}} {
		g.bench.Advance(c.after)
		if status := g.status(g.good()); status != c.want {
			t.Errorf("%v later: status %d, want %d", c.after, status, c.want)
		}
	}
}
