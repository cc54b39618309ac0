package signedhttp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// The pauses between tries: they double from the first to the longest, and each is cut by up to half at random.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 5 * time.Second
)

// Pause is how long to wait before try n (from 1) is made again.
func Pause(n int) time.Duration {
	d := longestPause
	if n < 6 {
		d = min(firstPause<<(max(n, 1)-1), longestPause)
	}
	return d/2 + rand.N(d/2+1)
}

// Clock is where the time comes from. Tests put their own in.
type Clock struct {
	Now  func() time.Time
	Wait func(ctx context.Context, d time.Duration) error // until d is over or the context ends
}

// SystemClock is the machine's.
func SystemClock() Clock {
	return Clock{Now: time.Now, Wait: func(ctx context.Context, d time.Duration) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
}

// Refused is an answer that will be the same for the same message.
type Refused struct{ Status int }

func (e *Refused) Error() string {
	if e.Status >= 300 && e.Status < 400 {
		return fmt.Sprintf("the service answered %d: redirects are not followed", e.Status)
	}
	return fmt.Sprintf("the service answered %d %s", e.Status, http.StatusText(e.Status))
}

// OfContent says whether the status is about what was sent, and not about the URL, the caller or the service.
func (e *Refused) OfContent() bool {
	return e.Status == http.StatusBadRequest || e.Status == http.StatusRequestEntityTooLarge ||
		e.Status == http.StatusUnprocessableEntity
}

// Unready means that every try until the deadline failed. Until, if not zero, is when the service wants to be asked
// again.
type Unready struct {
	Tries int
	Until time.Time
	Err   error
}

func (e *Unready) Error() string {
	if !e.Until.IsZero() {
		return fmt.Sprintf("not taken after %d tries; the service asks to wait until %s: %v", e.Tries,
			e.Until.UTC().Format(time.RFC3339), e.Err)
	}
	return fmt.Sprintf("not taken after %d tries: %v", e.Tries, e.Err)
}

func (e *Unready) Unwrap() error { return e.Err }

// Deliver calls once until it succeeds, with growing pauses, a longer one where the service asks for it, and no try
// after until. once gives a pause to keep at least, and an error; *Refused, or again false, ends it. Nothing here runs
// in a goroutine of its own. The error is what once said, or *Unready.
func Deliver(ctx context.Context, clock Clock, until time.Time,
	once func(ctx context.Context) (wait time.Duration, again bool, err error)) error {
	for n := 1; ; n++ {
		asked, again, err := once(ctx)
		if err == nil || !again {
			return err
		}
		unready := &Unready{Tries: n, Err: err}
		now := clock.Now()
		if asked > 0 {
			unready.Until = now.Add(asked)
		}
		pause := max(Pause(n), asked)
		if ctx.Err() != nil || !now.Add(pause).Before(until) {
			return unready
		}
		if clock.Wait(ctx, pause) != nil {
			return unready
		}
	}
}

// Once posts a message and reads the answer as Deliver wants it. timeout bounds the one try.
func (c *Client) Once(ctx context.Context, clock Clock, timeout time.Duration, m Message) (time.Duration, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	a, err := c.Post(ctx, clock.Now(), m)
	if err != nil {
		return 0, true, err
	}
	switch a.Class() {
	case Taken:
		return 0, false, nil
	case Again:
		return a.RetryAfter(clock.Now()), true, errors.New((&Refused{a.Status}).Error()) // not for good, so not a *Refused
	}
	return 0, false, &Refused{a.Status}
}
