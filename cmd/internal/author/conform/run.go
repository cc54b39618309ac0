package conform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// stage is how far a plugin must have come for a check to make sense.
type stage int

const (
	atFile    stage = iota // there is a file
	atSession              // it starts and shakes hands
	atInfo                 // and says what it is
	atReady                // and takes its settings
)

// check is one entry of the list.
type check struct {
	name    string
	expects string
	kind    pluginv1.Kind // only plugins of that kind; unspecified: all
	from    stage
	process bool          // needs a process that the suite may start and kill
	virgin  bool          // needs a plugin that has not been configured
	limit   time.Duration // 0: checkLimit
	run     func(ctx context.Context, r *run) error
}

// checks are all of them in the order in which they are run.
func checks() []check {
	return slices.Concat(startChecks(), infoChecks(), settingsChecks(), callChecks(), streamChecks(), scanChecks(),
		feedChecks(), endChecks())
}

// Names are the names of all checks, in their order.
func Names() []string {
	var names []string
	for _, c := range checks() {
		names = append(names, c.name)
	}
	return names
}

// run is one run of the suite. It is one goroutine's.
type run struct {
	opts    Options
	rep     *Report
	digest  string
	info    *pluginv1.InfoResponse // nil until the plugin has said what it is
	config  []byte                 // what it is configured with
	bad     []byte                 // settings that its schema refuses; nil if there are none
	secrets *secretFiles
	values  map[string][]byte // of the secrets
	journal journal
	main    Session // configured, or nil
	opened  []Session
	came    stage // how far the plugin came
	shook   bool  // it shook hands with the suite itself
	stopped string
	seen    string // what the running check says of its pass
	unheard int    // checks that ended for want of an answer
}

// fault is a failure: why, and what to do.
type fault struct{ why, advice string }

func (f *fault) Error() string { return f.why }

func failed(advice, why string, args ...any) error { return &fault{fmt.Sprintf(why, args...), advice} }

// skip is a check that does not concern this plugin.
type skip struct{ why string }

func (s *skip) Error() string { return s.why }

func skipped(why string, args ...any) error { return &skip{fmt.Sprintf(why, args...)} }

// saw notes what a check that passes has seen.
func (r *run) saw(format string, args ...any) { r.seen = fmt.Sprintf(format, args...) }

func (r *run) all(ctx context.Context) {
	for _, c := range checks() {
		if len(r.opts.Only) > 0 && !slices.Contains(r.opts.Only, c.name) && !leads[c.name] {
			continue
		}
		res := r.one(ctx, &c)
		if len(r.opts.Only) > 0 && !slices.Contains(r.opts.Only, c.name) && res.Outcome != Fail {
			continue // it only led to the others
		}
		r.rep.Checks = append(r.rep.Checks, res)
	}
	if err := ctx.Err(); err != nil {
		r.rep.Reason = "the run did not come to its end: " + context.Cause(ctx).Error()
	} else if r.stopped != "" {
		r.rep.Reason = "the run did not come to its end: " + r.stopped
	}
}

// leads are the checks on which all others stand: they are run even if only others are asked for.
var leads = map[string]bool{"handshake": true, "start": true, "info": true, "schema": true, "settings": true}

// one runs one check within its limit.
func (r *run) one(ctx context.Context, c *check) Result {
	res := Result{Name: c.name, Expects: c.expects}
	if why := r.notNow(ctx, c); why != "" {
		res.Outcome, res.Why = Skipped, why
		return res
	}
	limit := c.limit
	if limit == 0 {
		limit = checkLimit
	}
	if r.opts.most > 0 {
		limit = min(limit, r.opts.most)
	}
	began := time.Now()
	r.seen = ""
	within, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
	err := c.run(within, r)
	over := within.Err() != nil
	cancel()
	res.Millis = time.Since(began).Milliseconds()
	if err == nil {
		err = r.journal.complaint()
	}
	r.put(&res, err)
	if res.Outcome == Fail {
		r.forget() // the next check begins with a new process
		if over && ctx.Err() == nil {
			if r.unheard++; r.unheard >= maxTimeouts {
				r.stopped = fmt.Sprintf("%d checks waited in vain", r.unheard)
			}
		}
	}
	return res
}

func (r *run) put(res *Result, err error) {
	var f *fault
	var s *skip
	switch {
	case err == nil:
		res.Outcome, res.Why = Pass, r.seen
	case errors.As(err, &s):
		res.Outcome, res.Why = Skipped, s.why
	case errors.As(err, &f):
		res.Outcome, res.Why, res.Advice = Fail, err.Error(), f.advice
	default:
		res.Outcome, res.Why = Fail, err.Error()
	}
	res.Why, res.Advice = oneLine(res.Why), oneLine(res.Advice)
}

// notNow says why a check cannot be run.
func (r *run) notNow(ctx context.Context, c *check) string {
	names := map[stage]string{atSession: "start", atInfo: "info", atReady: "settings"}
	switch {
	case ctx.Err() != nil:
		return "not run: " + context.Cause(ctx).Error()
	case r.stopped != "":
		return "not run: " + r.stopped
	case c.process && r.opts.Path == "":
		return "the plugin is started by somebody else"
	case c.virgin && r.opts.Connect != "":
		return "the plugin that runs already may have settings"
	case c.from > r.came:
		return "not run: " + names[r.came+1] + " failed"
	case c.kind != 0 && !r.is(c.kind):
		return "the plugin is no " + kindName(c.kind)
	}
	return ""
}

func (r *run) is(kind pluginv1.Kind) bool { return slices.Contains(r.info.GetKinds(), kind) }

func kindName(k pluginv1.Kind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "KIND_"))
}

// inFlight is how many calls the plugin is given at once.
func (r *run) inFlight() int {
	n := 64
	if most := r.info.GetCapabilities().GetMaxInFlight(); most > 0 && most < 64 {
		n = int(most)
	}
	return n
}

// oneLine keeps what a plugin said from moving or hiding text.
func oneLine(s string) string {
	const most = 600
	s = strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t' || c == '\r':
			return ' '
		case !unicode.IsPrint(c) && c != utf8.RuneError: // an escape sequence would reach the author's terminal
			return '?'
		}
		return c
	}, strings.ToValidUTF8(s, "�"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.TrimSpace(s)
}

// said is a gRPC error in short.
func said(err error) string {
	if st, ok := status.FromError(err); ok {
		return codeName(st.Code()) + ": " + oneLine(st.Message())
	}
	return err.Error()
}

var codeNames = map[codes.Code]string{
	codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.PermissionDenied: "PERMISSION_DENIED",
	codes.ResourceExhausted: "RESOURCE_EXHAUSTED", codes.FailedPrecondition: "FAILED_PRECONDITION",
	codes.Aborted: "ABORTED", codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL",
	codes.Unavailable: "UNAVAILABLE", codes.Unauthenticated: "UNAUTHENTICATED",
}

func codeName(c codes.Code) string {
	if name := codeNames[c]; name != "" {
		return name
	}
	return c.String()
}
