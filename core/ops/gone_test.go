package ops

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/yett-dev/yett/core/store"
)

// trimmed is a log of which retention has removed the records before kept. late hides that from who asks for the first.
type trimmed struct {
	Log
	kept atomic.Uint64
	late bool
}

func (l *trimmed) First() uint64 {
	if l.late {
		return 1
	}
	return l.kept.Load()
}

func (l *trimmed) Records(from uint64, fn func(uint64, []byte) error) error {
	return l.Log.Records(max(from, l.kept.Load()), fn)
}

// TestGone: what retention has removed is never left out without a word. A stream that begins later than asked says so
// in its answer, or in a comment over HTTP; one that has begun ends, and says why.
func TestGone(t *testing.T) {
	open := func(t *testing.T, late bool) (*streamRig, *store.Key, *trimmed) {
		r := newStreamRig(t, 9)
		log := &trimmed{Log: r.store, late: late}
		log.kept.Store(1)
		r.svc.hub.log = log
		k := r.key("key", []string{"audit", "authorize"})
		for range 6 {
			r.note("decision", "agent_id", "a", "action_id", "act_1", "action_event", "created")
		}
		log.kept.Store(r.store.Seq() - 1)
		return r, k, log
	}
	for _, op := range []string{"audit_subscribe", "callback_subscribe"} {
		t.Run(op+" begins later", func(t *testing.T) {
			r, k, log := open(t, false)
			st := r.open(op, k, `{"from_seq":1}`)
			defer st.Close()
			if got := st.(*subscriber).opt.first.FromSeq; got != log.kept.Load() {
				t.Errorf("from_seq %d", got)
			}
			first := fmt.Sprintf(`"seq":%d,`, log.kept.Load())
			if got, closed := r.lines(st, 2); len(got) != 2 || closed || !strings.Contains(got[0], first) {
				t.Errorf("closed %v: %v", closed, got)
			}
		})
		t.Run(op+" is overtaken", func(t *testing.T) {
			r, k, log := open(t, true)
			st := r.open(op, k, `{"from_seq":1}`)
			defer st.Close()
			got, closed := r.lines(st, forever)
			want := fmt.Sprintf(`{"type":"gap","last_seq":%d}`, log.kept.Load()-1)
			if !closed || len(got) != 1 || got[0] != want {
				t.Errorf("closed %v: %v, want %s", closed, got, want)
			}
		})
		t.Run(op+" is overtaken while it is live", func(t *testing.T) {
			r, k, log := open(t, true)
			st := r.open(op, k, `{}`)
			defer st.Close()
			r.note("decision", "agent_id", "a")
			if got, closed := r.lines(st, 1); len(got) != 1 || closed {
				t.Fatalf("closed %v: %v", closed, got)
			}
			log.kept.Store(r.store.Seq() + 3)
			for range 3 {
				r.note("decision", "agent_id", "a")
			}
			got, closed := r.lines(st, forever)
			want := fmt.Sprintf(`{"type":"gap","last_seq":%d}`, r.store.Seq()-1)
			if !closed || len(got) != 1 || got[0] != want {
				t.Errorf("closed %v: %v, want %s", closed, got, want)
			}
		})
	}
	t.Run("events begin later", func(t *testing.T) {
		r, k, log := open(t, false)
		st := r.open("events", k, `{"last_event_id":"1"}`)
		defer st.Close()
		got, closed := r.lines(st, 3)
		want := []string{fmt.Sprintf(": gone up to %d", log.kept.Load()-1), "", fmt.Sprintf("id: %d", log.kept.Load())}
		if closed || !slices.Equal(got[:3], want) {
			t.Errorf("closed %v: %q, want %q", closed, got, want)
		}
	})
	t.Run("events are overtaken", func(t *testing.T) {
		r, k, _ := open(t, true)
		st := r.open("events", k, `{"last_event_id":"1"}`)
		defer st.Close()
		if got, closed := r.lines(st, forever); !closed || !slices.Equal(got, []string{": closing retention", ""}) {
			t.Errorf("closed %v: %q", closed, got)
		}
	})
}
