package loaded

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/supervise"
)

// pendingStates is how many changes of plugins' states may wait to be recorded. A plugin that crashes as fast as it may
// makes some sixty a minute.
const pendingStates = 1024

// MaxNoted is what a record keeps of a difference, an error or a reason, bytes.
const MaxNoted = 2 << 10

// StateLog records the changes of plugins' states in the audit log, behind the back of whoever changes them: a
// supervisor never waits for the disk. What finds the queue full is counted, and the count is recorded.
type StateLog struct {
	log     *slog.Logger
	changes chan prochost.Change
	dropped atomic.Uint64
	wg      sync.WaitGroup
}

// NewStateLog makes one that records nothing before Start. log must not wait.
func NewStateLog(log *slog.Logger) *StateLog {
	return &StateLog{log: log, changes: make(chan prochost.Change, pendingStates)}
}

// Note queues a change. It never waits, and is safe for concurrent use.
func (s *StateLog) Note(c prochost.Change) {
	select {
	case s.changes <- c:
	default:
		s.dropped.Add(1)
	}
}

// Start begins to record, what has waited first.
func (s *StateLog) Start(note func(ctx context.Context, typ string, fields ...[2]string) error,
	closing <-chan struct{}) {
	s.wg.Go(func() {
		for {
			select {
			case c := <-s.changes:
				s.record(note, c)
			case <-closing:
				for len(s.changes) > 0 {
					s.record(note, <-s.changes)
				}
				return
			}
		}
	})
}

// Wait returns when all is recorded that was taken before closing.
func (s *StateLog) Wait() { s.wg.Wait() }

func (s *StateLog) record(note func(ctx context.Context, typ string, fields ...[2]string) error, c prochost.Change) {
	reason := quote.Begin(c.Reason, MaxNoted)
	level := slog.LevelInfo
	if c.To == supervise.StateBackoff || c.To == supervise.StateQuarantined {
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level, fmt.Sprintf("plugin %s, replica %d: %s%s", c.Plugin, c.Replica, c.To,
		because(reason)))
	fields := [][2]string{{"plugin", c.Plugin}, {"policy_version", c.Generation},
		{"at", c.At.UTC().Format(time.RFC3339Nano)}, {"replica", fmt.Sprint(c.Replica)}, {"from", string(c.From)}, {"to", string(c.To)}, {"reason", reason}, {"crashes", fmt.Sprint(c.Crashes)}}
	if n := s.dropped.Swap(0); n > 0 {
		fields = append(fields, [2]string{"not_recorded", fmt.Sprint(n)})
	}
	if err := note(context.Background(), "plugin_state", fields...); err != nil {
		s.log.Error(fmt.Sprintf("plugin %s: its state could not be recorded: %v", c.Plugin, err))
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
