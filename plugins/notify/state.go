package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// The limits of the state.
const (
	maxCalls  = 10_000
	maxState  = 64 << 20
	keepCalls = 24 * time.Hour // behind their expiry: the log may reach us late
)

const stateName = "notify.state.json"

// ref is how a message that was sent is found again.
type ref struct {
	Channel string `json:"channel,omitempty"`
	TS      string `json:"ts,omitempty"`
	Mail    string `json:"mail,omitempty"` // Message-ID
}

// mark says what one target was told of one call.
type mark struct {
	Seq    uint64 `json:"seq"`              // of the last change it was told of
	Ref    ref    `json:"ref,omitzero"`     // the message
	Digest bool   `json:"digest,omitempty"` // told in a digest only
	Lost   bool   `json:"lost,omitempty"`   // given up, as on_failure says
}

type callState struct {
	Expires time.Time        `json:"expires"`
	Targets map[string]*mark `json:"targets"`
}

// state is what was sent, by decision id. With a folder it is on disk before the next message goes out. It is safe for
// concurrent use.
type state struct {
	dir string // "": in memory only
	log *slog.Logger

	mu    sync.Mutex
	calls map[string]*callState // nil: not loaded
	lock  *os.File
}

// load takes the lock and reads the file, once. At a reload the process before this one may still write it, so it is
// not done before the first batch.
func (s *state) load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls != nil {
		return nil
	}
	if s.dir == "" {
		s.calls = map[string]*callState{}
		return nil
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, stateName+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return fmt.Errorf("state: another process uses the folder: %w", err)
	}
	calls, err := readState(filepath.Join(s.dir, stateName))
	if err != nil {
		_ = lock.Close()
		return err
	}
	s.calls, s.lock = calls, lock
	return nil
}

func readState(path string) (map[string]*callState, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return map[string]*callState{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if len(text) > maxState {
		return nil, fmt.Errorf("state: %s has more than %d bytes", stateName, maxState)
	}
	return parseState(text)
}

func parseState(text []byte) (map[string]*callState, error) {
	calls := map[string]*callState{}
	if err := json.Unmarshal(text, &calls); err != nil {
		return nil, fmt.Errorf("state: %s cannot be read; move it away to begin anew: %w", stateName, err)
	}
	for id, c := range calls {
		if c == nil || c.Targets == nil {
			return nil, fmt.Errorf("state: the entry %q of %s has no targets; move the file away to begin anew", id, stateName)
		}
		for _, m := range c.Targets {
			if m == nil {
				return nil, fmt.Errorf("state: the entry %q of %s has an empty target; move the file away to begin anew", id,
					stateName)
			}
		}
	}
	return calls, nil
}

// told is a copy of what target was told of the call.
func (s *state) told(id, target string) (mark, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[id]; c != nil && c.Targets[target] != nil {
		return *c.Targets[target], true
	}
	return mark{}, false
}

// tell notes what target was told of some calls, and returns when that is on disk.
func (s *state) tell(target string, now time.Time, marks map[*event]mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e, m := range marks {
		c := s.calls[e.ID]
		if c == nil {
			c = &callState{Targets: map[string]*mark{}}
			s.calls[e.ID] = c
		}
		if e.Expires.After(c.Expires) {
			c.Expires = e.Expires
		}
		c.Targets[target] = &m
	}
	s.trim(now)
	return s.save()
}

// trim forgets calls that ended long ago, and those that end first beyond the limit.
func (s *state) trim(now time.Time) {
	var ids []string
	for id, c := range s.calls {
		if now.Sub(c.Expires) > keepCalls {
			delete(s.calls, id)
		} else {
			ids = append(ids, id)
		}
	}
	over := len(ids) - maxCalls
	if over <= 0 {
		return
	}
	slices.SortFunc(ids, func(a, b string) int { return s.calls[a].Expires.Compare(s.calls[b].Expires) })
	for _, id := range ids[:over] {
		delete(s.calls, id)
	}
	s.log.Warn("too many calls are open: messages about the oldest will not be updated", "forgotten", over, "limit",
		maxCalls)
}

// save writes the file anew and puts it in the place of the old one.
func (s *state) save() error {
	if s.dir == "" {
		return nil
	}
	text, err := json.Marshal(s.calls)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir, stateName+".next"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := os.Rename(f.Name(), filepath.Join(s.dir, stateName)); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	d, err := os.Open(s.dir)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *state) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
	if s.lock == nil {
		return nil
	}
	err := s.lock.Close()
	s.lock = nil
	return err
}
