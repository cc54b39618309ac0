package subscribers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/supervise"
)

// Before anything was kept of the time, the newest record tells how far a clock may have come.
func TestFirstClock(t *testing.T) {
	for _, c := range []struct {
		name  string
		notes int
		ahead time.Duration
		doubt bool
	}{
		{"a new store", 0, 1000 * 24 * time.Hour, false},
		{"the next morning", 1, 20 * time.Hour, false},
		{"a hundred days later", 1, 100 * 24 * time.Hour, true},
		{"a clock that went back", 1, -100 * 24 * time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := store.Open(store.Settings{Dir: t.TempDir(), Now: time.Now, NewID: func() string {
				return "sto_test"
			}, Log: t.Logf})
			if err != nil {
				t.Fatal(err)
			}
			for range c.notes {
				if err := s.Commit(context.Background(), &store.Note{Type: "tick", By: store.Who{Principal: "test"}}); err != nil {
					t.Fatal(err)
				}
			}
			clock, err := FirstClock(s, time.Now().Add(c.ahead), supervise.Uptime)
			if err != nil || clock.InDoubt() != c.doubt {
				t.Errorf("%+v: %v", clock, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The uptime goes on, and names its boot.
func TestUptime(t *testing.T) {
	boot, up := supervise.Uptime()
	again, later := supervise.Uptime()
	if boot == "" || strings.TrimSpace(boot) != boot || again != boot || up <= 0 || later < up {
		t.Errorf("%q %v, then %q %v", boot, up, again, later)
	}
}
