package conform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yett-dev/yett/core/prochost"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

const authorizer = pluginv1.Kind_KIND_AUTHORIZER

func callChecks() []check {
	return []check{
		{name: "unknown-call", kind: authorizer, from: atReady, run: checkUnknown,
			expects: "a call of a tool that it has never heard of is ABSTAIN or DENY"},
		{name: "answers", kind: authorizer, from: atReady, run: checkAnswers,
			expects: "every answer keeps the rules: known effect, a code unless ABSTAIN, bounded UTF-8 texts, the " +
				"request's own id"},
		{name: "malformed", kind: authorizer, from: atReady, run: checkMalformed,
			expects: "a request that is not whole (no id, no call, args that are no object, no digest, past its deadline) is " +
				"an error or DENY"},
		{name: "large", kind: authorizer, from: atReady, run: checkLarge,
			expects: "a call with 1 MiB of arguments is answered or refused, never permitted by accident"},
		{name: "same-answer", kind: authorizer, from: atReady, run: checkSame,
			expects: "identical calls get identical answers, alone or on a stream, after other calls"},
		{name: "concurrency", kind: authorizer, from: atReady, run: checkConcurrent,
			expects: "64 calls at once (or as many as it declares) are each answered with their own id"},
		{name: "timeout", kind: authorizer, from: atReady, run: checkTimeout,
			expects: "calls are answered within the gateway's timeout of one call (50 ms, or --timeout)"},
		{name: "deadline", kind: authorizer, from: atReady, run: checkDeadline,
			expects: "after a call's deadline there is no verdict any more, only an error; the plugin stays up"},
	}
}

var reasonCode = regexp.MustCompile(`^[A-Z0-9_]{1,64}$`)

func effectName(e pluginv1.CheckResponse_Effect) string {
	return strings.TrimPrefix(e.String(), "EFFECT_")
}

// wrongAnswer says which rule an answer breaks. An answer that is an error keeps the rules by its id alone.
func wrongAnswer(id uint64, a *pluginv1.CheckResponse) error {
	bad := func(format string, args ...any) error {
		return failed("plugin.proto says what each field of CheckResponse may hold; the gateway takes such an answer for "+
			"an error", "request %d: %s", id, fmt.Sprintf(format, args...))
	}
	for _, text := range []struct {
		name, value string
		most        int
	}{{"reason", a.Reason, 1024}, {"rule_id", a.RuleId, 256}, {"message", a.Message, 1024},
		{"error", a.Error, maxAnswer}} {
		if len(text.value) > text.most || !utf8.ValidString(text.value) {
			return bad("%s has %d bytes, at most %d of UTF-8", text.name, len(text.value), text.most)
		}
	}
	switch {
	case a.Id != id:
		return bad("the answer carries the id %d", a.Id)
	case a.Error != "":
		return nil
	case a.Effect < pluginv1.CheckResponse_EFFECT_ABSTAIN || a.Effect > pluginv1.CheckResponse_EFFECT_DENY:
		return bad("the effect %d is unknown", a.Effect)
	case a.Effect != pluginv1.CheckResponse_EFFECT_ABSTAIN && !reasonCode.MatchString(a.Code):
		return bad("%s with the code %q, want 1 to 64 of A-Z 0-9 _", effectName(a.Effect), short(a.Code))
	case a.TtlMs < 0 || a.ExpiresMs < 0:
		return bad("a time is negative")
	case !slices.Contains([]string{"", "low", "medium", "high"}, a.Priority):
		return bad("unknown priority %q: expected low, medium or high", short(a.Priority))
	}
	if err := prochost.WrongAnswer(a); err != nil {
		return bad("%v", err)
	}
	return nil
}

// one asks one call and holds the answer against the rules. Its error is a failure of the plugin's.
func (r *run) ask(ctx context.Context, s Session, req *pluginv1.CheckRequest) (*pluginv1.CheckResponse, error) {
	resp, err := r.authorizer(s).Check(ctx, req)
	if err != nil {
		return nil, r.gone(s, err)
	}
	return resp, wrongAnswer(req.Id, resp)
}

func checkUnknown(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	const advice = "a tool that the plugin does not know is not its business (ABSTAIN) or not allowed (DENY); other " +
		"steps decide then"
	for i, c := range suiteCalls {
		resp, err := r.ask(ctx, s, r.check(uint64(i)+1, c))
		switch {
		case err != nil:
			return failed(advice, "%s: %s", c.ToolID, said(err))
		case resp.Error != "":
			return failed(advice, "%s: the check ended in an error: %s", c.ToolID, oneLine(resp.Error))
		case resp.Effect != pluginv1.CheckResponse_EFFECT_ABSTAIN && resp.Effect != pluginv1.CheckResponse_EFFECT_DENY:
			return failed(advice, "%s: the answer is %s %s", c.ToolID, effectName(resp.Effect), oneLine(resp.Code))
		}
		r.saw("%s", inShort(resp))
	}
	return nil
}

func checkAnswers(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	ids := []uint64{1, 2, 1 << 31, 1<<53 + 1, math.MaxUint64}
	counts := map[string]int{}
	for i, c := range r.calls() {
		resp, err := r.ask(ctx, s, r.check(ids[i%len(ids)], c))
		if err != nil {
			return fmt.Errorf("%s: %w", c.ToolID, asFault(err))
		}
		word := effectName(resp.Effect)
		if resp.Error != "" {
			word = "error"
		}
		counts[word]++
		if c.Effect != "" && c.Effect != word {
			return failed("this call and its effect were given with --calls", "%s: the answer is %s %s %s, want %s", c.ToolID,
				word, resp.Code, oneLine(resp.Reason+resp.Error), c.Effect)
		}
	}
	var parts []string
	for _, word := range []string{"ABSTAIN", "PERMIT", "DEFER", "DENY", "error"} {
		if counts[word] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[word], word))
		}
	}
	seen := strings.Join(parts, ", ")
	if counts["ABSTAIN"] == len(r.calls()) {
		seen += untried
	}
	r.saw("%s", seen)
	return nil
}

// untried ends what is said of answers that are all ABSTAIN: a plugin that looks up who or what it is asked about, and
// finds nothing, has run none of its rules.
const untried = ": its rules were not reached, give calls that they are for with --calls"

// Untried says whether the plugin abstained from every call, so that the run shows nothing of its rules.
func (rep *Report) Untried() bool {
	return slices.ContainsFunc(rep.Checks, func(c Result) bool {
		return c.Name == "answers" && c.Outcome == Pass && strings.HasSuffix(c.Why, untried)
	})
}

// asFault makes an error of gRPC's one that reads well.
func asFault(err error) error {
	var f *fault
	if errors.As(err, &f) {
		return err
	}
	return errors.New(said(err))
}

// malformed are requests that are not whole, by what is wrong with them.
func (r *run) malformed(id uint64) []struct {
	what string
	req  *pluginv1.CheckRequest
} {
	make := func(change func(q *pluginv1.CheckRequest)) *pluginv1.CheckRequest {
		q := r.unknownCall(id)
		q.Call.ToolId = "conform-malformed/probe"
		change(q)
		return q
	}
	return []struct {
		what string
		req  *pluginv1.CheckRequest
	}{
		{"without an id", make(func(q *pluginv1.CheckRequest) { q.Id = 0 })},
		{"without a call", make(func(q *pluginv1.CheckRequest) { q.Call = nil })},
		{"with args that are no JSON", make(func(q *pluginv1.CheckRequest) { q.Call.Args = []byte(`{"a":`) })},
		{"with args that are a list", make(func(q *pluginv1.CheckRequest) { q.Call.Args = []byte(`[1]`) })},
		{"with args that are no UTF-8", make(func(q *pluginv1.CheckRequest) { q.Call.Args = []byte("{\"a\":\"\xff\"}") })},
		{"with a context that is no JSON", make(func(q *pluginv1.CheckRequest) { q.Call.Context = []byte(`nothing`) })},
		{"without a digest", make(func(q *pluginv1.CheckRequest) { q.Call.Digest = nil })},
		{"with a digest of 5 bytes", make(func(q *pluginv1.CheckRequest) { q.Call.Digest = []byte("short") })},
		{"past its deadline", make(func(q *pluginv1.CheckRequest) { q.DeadlineUnixNano = time.Now().Add(-time.Second).UnixNano() })},
	}
}

func checkMalformed(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	const advice = "answer INVALID_ARGUMENT, or error in the answer, to what is not whole; DEADLINE_EXCEEDED to " +
		"what is late"
	for _, m := range r.malformed(7) {
		resp, err := r.authorizer(s).Check(ctx, m.req)
		switch {
		case err != nil && (ended(s) || status.Code(err) == codes.Unavailable || ctx.Err() != nil):
			return r.gone(s, failed(advice, "a request %s: %s", m.what, said(err)))
		case err != nil, resp.Error != "", resp.Effect == pluginv1.CheckResponse_EFFECT_DENY:
		default:
			return failed(advice, "a request %s was answered with %s %s", m.what, effectName(resp.Effect), oneLine(resp.Code))
		}
	}
	if _, err := r.ask(ctx, s, r.unknownCall(8)); err != nil {
		return failed(advice, "after malformed requests a good one fails: %s", said(err))
	}
	return nil
}

func checkLarge(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	args := []byte(`{"text":"` + strings.Repeat("all work and no play ", 1<<20/21) + `"}`)
	nested := []byte(strings.Repeat(`{"a":`, 10_000) + `1` + strings.Repeat(`}`, 10_000))
	for what, text := range map[string][]byte{"1 MiB of arguments": args, "arguments 10000 objects deep": nested} {
		resp, err := r.ask(ctx, s, r.check(9, Call{ToolID: unknownTool, Args: text}))
		var f *fault
		switch {
		case errors.As(err, &f):
			return fmt.Errorf("%s: %w", what, err)
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("%s: %s", what, said(err))
		case err == nil && resp.Error == "" && resp.Effect == pluginv1.CheckResponse_EFFECT_PERMIT:
			return failed("what is too large to be looked at is an error or DENY",
				"a call of an unknown tool with %s is permitted", what)
		}
	}
	if _, err := r.ask(ctx, s, r.unknownCall(10)); err != nil {
		return failed("refuse what is too large and go on", "after large calls a small one fails: %s", said(err))
	}
	return nil
}

func checkSame(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	const advice = "an answer depends on the call, the settings and the generation; what else it depends on belongs " +
		"into the operator's rules (rates, budgets)"
	first, err := r.answers(ctx, s)
	if err != nil {
		return err
	}
	again, err := r.answers(ctx, s)
	if err != nil {
		return err
	}
	if why := first.slower(again); why != nil {
		return why
	}
	if !first.same(again) {
		return failed(advice, "asked twice, the calls were answered %s and then %s", first, again)
	}
	if !r.info.GetCapabilities().GetCheckStream() {
		return nil
	}
	var streamed answerList
	for range answerTries {
		got, err := r.streamed(ctx, s)
		if err != nil {
			return err
		}
		streamed = streamed.orElse(got)
		if first.slower(streamed) == nil {
			break
		}
	}
	if why := first.slower(streamed); why != nil {
		return why
	}
	if !first.same(streamed) {
		return failed(advice, "on CheckStream the calls were answered %s, with Check %s", streamed, first)
	}
	return nil
}

func checkConcurrent(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	const rounds = 4
	n := r.inFlight()
	began := time.Now()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for k := range rounds {
				calls := r.calls()
				id := uint64(i*rounds+k) + 1
				_, err := r.ask(ctx, s, r.check(id, calls[int(id)%len(calls)]))
				var f *fault
				if errors.As(err, &f) || err != nil && transportFailed(err) {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("%d calls at once: %w", n, asFault(err))
		}
	}
	r.saw("%d calls in %d ms", n*rounds, time.Since(began).Milliseconds())
	return nil
}
