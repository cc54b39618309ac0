package conform

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// answerTries is how often a call is made that ends in an error before the error is its answer. One alone may be the
// fault of the machine, or of what the plugin asks in its turn, and would be blamed on whatever is being checked.
const answerTries = 3

// answered is what came of one call.
type answered struct {
	tool  string
	short string // effect and code, or anError
	why   string // of an error
	late  bool   // the error is about time
	took  time.Duration
}

const anError = "an error"

// answerList is what came of a list of calls.
type answerList []answered

func (l answerList) String() string {
	var all []string
	for _, a := range l {
		all = append(all, a.short)
	}
	return strings.Join(all, ", ")
}

// same compares two lists. Reasons may name times and counts, so only effects and codes count.
func (l answerList) same(other answerList) bool { return l.String() == other.String() }

// orElse takes another try's answer for what ended in an error.
func (l answerList) orElse(again answerList) answerList {
	if l == nil {
		return again
	}
	for i := range l {
		if l[i].short == anError {
			l[i] = again[i]
		}
	}
	return l
}

// slower explains two lists that differ in nothing but errors: the plugin did not answer differently, but once not at
// all.
func (l answerList) slower(other answerList) error {
	if len(l) != len(other) {
		return nil
	}
	var lost *answered
	for i := range l {
		a, b := &l[i], &other[i]
		switch {
		case a.short == b.short:
		case a.short == anError:
			lost = a
		case b.short == anError:
			lost = b
		default:
			return nil
		}
	}
	switch {
	case lost == nil:
		return nil
	case lost.late:
		return failed("answer within the deadline of the call; if what the plugin asks is slow here, try again when "+
			"it is not",
			"it is late, not wrong: %s had an answer once, and another time none in %d tries (%s, after %v)", lost.tool,
			answerTries, lost.why, lost.took.Round(time.Millisecond))
	}
	return failed("a call that has an answer has one each time: mend why it ends in an error",
		"%s had an answer once, and another time ended in an error in each of %d tries: %s", lost.tool, answerTries, lost.why)
}

// answers asks all calls and gives what was answered. A call that ends in an error is asked again.
func (r *run) answers(ctx context.Context, s Session) (answerList, error) {
	if !r.is(authorizer) {
		return nil, nil
	}
	var all answerList
	again := 0
	for i, c := range r.calls() {
		var a answered
		for try := range answerTries {
			var err error
			if a, err = r.answer(ctx, s, uint64(i)+1, c); err != nil {
				return nil, err
			}
			if a.short != anError || ctx.Err() != nil {
				if try > 0 && a.short != anError {
					again++
				}
				break
			}
		}
		all = append(all, a)
	}
	if again > 0 {
		r.saw("%d calls were answered at a later try only", again)
	}
	return all, nil
}

// answer asks one call. The error is a fault of the plugin's that asking again does not mend.
func (r *run) answer(ctx context.Context, s Session, id uint64, c Call) (answered, error) {
	began := time.Now()
	resp, err := r.ask(ctx, s, r.check(id, c))
	a := answered{tool: oneLine(c.ToolID), took: time.Since(began)}
	var f *fault
	switch {
	case errors.As(err, &f):
		return a, err
	case err != nil:
		a.short, a.why, a.late = anError, said(err), status.Code(err) == codes.DeadlineExceeded ||
			errors.Is(err, context.DeadlineExceeded)
	case resp.Error != "":
		a.short, a.why, a.late = anError, oneLine(resp.Error), speaksOfTime(resp.Error)
	default:
		a.short = inShort(resp)
	}
	return a, nil
}

// streamed asks all calls on a stream, one after the other.
func (r *run) streamed(ctx context.Context, s Session) (answerList, error) {
	var reqs []*pluginv1.CheckRequest
	calls := r.calls()
	for i, c := range calls {
		reqs = append(reqs, r.check(uint64(i)+1, c))
	}
	began := time.Now()
	got, err := r.stream(ctx, s, reqs, 1)
	if err != nil {
		return nil, err
	}
	var all answerList
	for i, q := range reqs {
		resp := got[q.Id]
		a := answered{tool: oneLine(calls[i].ToolID), short: inShort(resp), took: time.Since(began)}
		if resp.GetError() != "" {
			a.why, a.late = oneLine(resp.Error), speaksOfTime(resp.Error)
		}
		all = append(all, a)
	}
	return all, nil
}

// speaksOfTime says whether an error text is about a deadline, in the words that gRPC and most libraries have for it.
func speaksOfTime(text string) bool {
	text = strings.ToLower(text)
	for _, word := range []string{"deadline", "timeout", "timed out", "too late", "not in time"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// inShort is what matters of an answer when two are compared. Reasons may name times and counts.
func inShort(resp *pluginv1.CheckResponse) string {
	if resp.Error != "" {
		return anError
	}
	return strings.TrimSpace(effectName(resp.Effect) + " " + resp.Code)
}
