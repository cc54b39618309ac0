package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/testkit"
)

// TestRevokeOverHTTP revokes keys over the admin socket while 64 clients use them: no request that began after a revoke
// had returned may be let in.
func TestRevokeOverHTTP(t *testing.T) {
	testkit.Slow(t, "revokes under load")
	s := startDev(t, nil, "--data", t.TempDir())
	c, err := admin.Dial(s.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var tick atomic.Int64
	type life struct {
		id, value string
		revoked   atomic.Int64 // when revoke had returned; 0 before
	}
	var slots [16]atomic.Pointer[life]
	n := 0
	fresh := func() *life {
		n++
		var k admin.NewKey
		if err := c.Do(t.Context(), "POST", "/keys", admin.CreateRequest{Name: fmt.Sprint("key ", n)}, &k); err != nil {
			t.Fatal(err)
		}
		return &life{id: k.ID, value: k.Key}
	}
	for i := range slots {
		slots[i].Store(fresh())
	}
	var late, in, permits atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				l := slots[n%len(slots)].Load()
				began := tick.Add(1)
				revoked := l.revoked.Load() // 0, or earlier than began: the clock went on between
				a, err := s.send("POST", "/v1/authorize", l.value, `{"agent_id":"a","tool_id":"files/read"}`)
				switch {
				case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
					continue // the server closes idle connections of a revoked key, and keys share them here
				case err != nil || a.status != 200 && a.str("code") != "key_revoked":
					t.Errorf("%v %s", err, a.body)
					return
				case a.status == 200:
					permits.Add(1)
				}
				if revoked != 0 && began > revoked {
					late.Add(1)
					if a.status == 200 {
						in.Add(1)
					}
				}
			}
		})
	}
	for i := range rounds(t, 30, 1000) * 4 {
		at := i % len(slots)
		l := slots[at].Load()
		if l.revoked.Load() != 0 { // the dead one has stayed for a while: users have met it
			slots[at].Store(fresh())
			continue
		}
		var ok struct{ ID string }
		if err := c.Do(t.Context(), "POST", "/keys/"+l.id+"/revoke", nil, &ok); err != nil {
			t.Fatal(err)
		}
		l.revoked.Store(tick.Add(1))
	}
	close(stop)
	wg.Wait()
	if in.Load() != 0 || late.Load() == 0 || permits.Load() == 0 {
		t.Errorf("%d of %d requests that began after the revoke were let in; %d permits in all", in.Load(), late.Load(),
			permits.Load())
	}
	t.Logf("%d requests began after a revoke and were refused, %d were permitted before", late.Load(), permits.Load())
}
