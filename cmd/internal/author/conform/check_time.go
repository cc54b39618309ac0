package conform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// transportFailed says whether a call ended otherwise than by an answer of the plugin's.
func transportFailed(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.ResourceExhausted, codes.DeadlineExceeded:
		return true
	}
	return false
}

func checkTimeout(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	const tries = 20
	var took []time.Duration
	var last error
	for i := range tries {
		req := r.unknownCall(uint64(i) + 1)
		began := time.Now()
		req.DeadlineUnixNano = began.Add(r.opts.Timeout).UnixNano()
		within, cancel := context.WithTimeout(ctx, r.opts.Timeout)
		resp, err := r.ask(within, s, req)
		after := time.Since(began)
		cancel()
		var f *fault
		switch {
		case errors.As(err, &f):
			return err
		case err != nil:
			last = errors.New(said(err))
		case resp.Error != "":
			last = errors.New(oneLine(resp.Error))
		case after >= r.opts.Timeout: // on a busy machine the context may end late
			last = fmt.Errorf("answered after %v", after.Round(time.Millisecond))
		default:
			took = append(took, after)
		}
	}
	if len(took) == 0 {
		return failed("answer faster, or have the operator raise limits.timeout of the plugin and give the same here with "+
			"--timeout",
			"none of %d calls was answered within %v: %v", tries, r.opts.Timeout, last)
	}
	slices.Sort(took)
	r.saw("median %v, %d of %d in time", took[len(took)/2].Round(10*time.Microsecond), len(took), tries)
	return nil
}

// lateBy is how long after its deadline an answer may arrive here and still have been given in time.
const lateBy = 250 * time.Millisecond

func checkDeadline(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	const tries = 5
	late := 0
	for i := range tries {
		req := r.unknownCall(uint64(i) + 1)
		deadline := time.Now().Add(time.Millisecond)
		req.DeadlineUnixNano = deadline.UnixNano()
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		resp, err := r.authorizer(s).Check(within, req)
		cancel()
		switch {
		case ended(s), err != nil && status.Code(err) == codes.Unavailable:
			return r.gone(s, failed("a late call is an error of that call and nothing else",
				"a call with a deadline of 1 ms: %s", said(err)))
		case err == nil && resp.Error == "" && time.Since(deadline) > lateBy, err != nil && within.Err() != nil:
			late++
		}
	}
	if late > tries/2 { // one alone may be the machine's fault
		return failed("give up at deadline_unix_nano (the context of Check ends then) and answer DEADLINE_EXCEEDED",
			"%d of %d calls with a deadline of 1 ms were answered, or still waited for, much later", late, tries)
	}
	if _, err := r.ask(ctx, s, r.unknownCall(10)); err != nil {
		return failed("a late call is an error of that call and nothing else", "after late calls a good one fails: %s",
			said(err))
	}
	return nil
}
