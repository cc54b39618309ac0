package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// generation is that of the suite's configuration.
const generation = "conform-1"

func settingsChecks() []check {
	return []check{
		{name: "settings", from: atInfo, run: checkSettings,
			expects: "Configure takes the example's settings (or those given), after validate_only found nothing wrong " +
				"with them"},
		{name: "before-configure", virgin: true, from: atInfo, run: checkBefore,
			expects: "what comes before Configure is an error (FAILED_PRECONDITION), never an answer"},
		{name: "settings-refused", virgin: true, from: atReady, run: checkRefused,
			expects: "settings that are no JSON object, or that the schema refuses, are problems or INVALID_ARGUMENT, and " +
				"nothing is answered with them"},
		{name: "integers", virgin: true, from: atReady, run: checkIntegers,
			expects: "an integer of the settings is taken in any notation that the schema takes: 100.0 as 100"},
		{name: "validate-only", virgin: true, from: atReady, run: checkValidateOnly,
			expects: "Configure with validate_only has no effect: nothing is answered after it alone, the settings in force " +
				"stay, no file appears"},
		{name: "secrets", virgin: true, from: atReady, run: checkSecrets,
			expects: "a required secret that is missing is a problem, and no value of a secret is in the log"},
		{name: "health", from: atReady, run: checkHealth,
			expects: "Health answers at once and then every interval, and serves once there are settings"},
	}
}

// problems are a refusal in one line.
func problems(resp *pluginv1.ConfigureResponse) string {
	var all []string
	for i, p := range resp.GetProblems() {
		if i == 5 {
			all = append(all, fmt.Sprintf("and %d more", len(resp.Problems)-i))
			break
		}
		all = append(all, strings.TrimPrefix(p.GetField()+": "+p.GetMessage(), ": "))
	}
	return oneLine(strings.Join(all, "; "))
}

func checkSettings(ctx context.Context, r *run) error {
	var values map[string]string
	var err error
	if r.secrets, values, err = newSecrets(r.opts.Secrets, r.wantedSecrets()); err != nil {
		return err
	}
	r.values = map[string][]byte{}
	for name, value := range values {
		r.values[name] = []byte(value)
		r.journal.watch("the value of the secret "+name, value)
	}
	if r.config == nil { // the check of the schema did not come to it
		r.config = []byte("{}")
	}
	s, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	advice := "example_config is settings with which the plugin runs as it is; give others with --config"
	if len(r.secrets.standIn) > 0 {
		advice = fmt.Sprintf("the suite made up a value for the secret %s: give the real one with --secret %s=FILE",
			strings.Join(r.secrets.standIn, ", "), r.secrets.standIn[0])
	}
	for _, only := range []bool{true, false} {
		resp, err := r.plugin(s).Configure(ctx, r.request(s, only))
		if r.opts.Connect != "" && !only && status.Code(err) == codes.FailedPrecondition {
			r.saw("it had its settings already")
			break
		}
		if err != nil {
			return r.gone(s, failed(advice, "Configure (validate_only %t): %s", only, said(err)))
		}
		if len(resp.Problems) > 0 {
			return failed(advice, "Configure (validate_only %t): %s", only, problems(resp))
		}
	}
	r.main, r.came = s, atReady
	if len(r.secrets.standIn) > 0 {
		r.saw("with made-up values of %s", strings.Join(r.secrets.standIn, ", "))
	}
	return nil
}

// wantedSecrets are those that the suite has to hand over: with Connect whoever started the plugin gave it its secrets.
func (r *run) wantedSecrets() []*pluginv1.SecretSpec {
	if r.opts.Connect != "" {
		return nil
	}
	return r.info.Secrets
}

// silent makes sure that a plugin without settings answers nothing, and gives what it did instead.
func (r *run) silent(ctx context.Context, s Session, when string) error {
	const advice = "refuse calls with FAILED_PRECONDITION until Configure (without validate_only) has succeeded"
	if r.is(pluginv1.Kind_KIND_AUTHORIZER) {
		resp, err := r.authorizer(s).Check(ctx, r.unknownCall(1))
		if err == nil && resp.GetError() == "" {
			return failed(advice, "%s, Check answered %s", when, effectName(resp.Effect))
		}
	}
	if r.is(pluginv1.Kind_KIND_SCANNER) {
		resp, err := r.scanner(s).Scan(ctx, r.text(1, "some text"))
		if err == nil && resp.GetError() == "" {
			return failed(advice, "%s, Scan answered with %d findings: the text would pass for covered", when,
				len(resp.Findings))
		}
	}
	if r.is(pluginv1.Kind_KIND_SUBSCRIBER) {
		if ack, err := r.oneBatch(ctx, s); err == nil && ack.GetSeq() > 0 {
			return failed(advice, "%s, Consume acknowledged record %d", when, ack.Seq)
		}
	}
	if ended(s) {
		return r.gone(s, failed("refuse and stay up", "%s, a request ended the process", when))
	}
	return nil
}

// oneBatch sends one batch on a stream of its own and gives the first acknowledgement.
func (r *run) oneBatch(ctx context.Context, s Session) (*pluginv1.Ack, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	feed, err := r.subscriber(s).Consume(ctx)
	if err != nil {
		return nil, err
	}
	if err := feed.Send(newLog().batch(3)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return feed.Recv()
}

func checkBefore(ctx context.Context, r *run) error {
	s, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	defer r.done(s)
	return r.silent(ctx, s, "before Configure")
}

func checkRefused(ctx context.Context, r *run) error {
	s, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	defer r.done(s)
	bad := []struct{ what, text string }{
		{"a list", "[]"}, {"null", "null"}, {"text that is cut off", `{"a":`}, {"bytes that are no UTF-8", "{\"a\":\"\xff\xfe\"}"}, {"a number", "7"},
	}
	if r.bad != nil {
		bad = append(bad, struct{ what, text string }{"a member that the schema does not know", string(r.bad)})
	}
	for _, only := range []bool{true, false} {
		for _, b := range bad {
			req := r.request(s, only)
			req.Config = []byte(b.text)
			resp, err := r.plugin(s).Configure(ctx, req)
			if err != nil && ended(s) {
				return r.gone(s, fmt.Errorf("Configure with %s: %s", b.what, said(err)))
			}
			if code := status.Code(err); err != nil && (code == codes.DeadlineExceeded || code == codes.Unavailable) {
				return fmt.Errorf("Configure with %s: %s", b.what, said(err))
			}
			if err == nil && len(resp.GetProblems()) == 0 {
				return failed("hold the settings against the schema, in Validate; Settings.Decode refuses what it does not know",
					"Configure (validate_only %t) took %s for settings", only, b.what)
			}
		}
	}
	return r.silent(ctx, s, "after Configure was refused")
}

func checkValidateOnly(ctx context.Context, r *run) error {
	s, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	defer r.done(s)
	before, err := r.workDir(s)
	if err != nil {
		return err
	}
	if _, err := r.plugin(s).Configure(ctx, r.request(s, true)); err != nil {
		return r.gone(s, fmt.Errorf("Configure with validate_only: %s", said(err)))
	}
	if err := r.silent(ctx, s, "after nothing but validate_only"); err != nil {
		return err
	}
	after, err := r.workDir(s)
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		return failed("write files in Configure, not in Validate", "validate_only left files in the working directory: %s",
			strings.Join(changed(before, after), ", "))
	}
	return r.keepsSettings(ctx, s)
}

// changed names the files that are there or not there in one of two lists only, or have another size.
func changed(before, after map[string]int64) []string {
	names := map[string]bool{}
	for name := range after {
		was, had := before[name]
		names[name] = !had || was != after[name]
	}
	for name := range before {
		if _, has := after[name]; !has {
			names[name] = true
		}
	}
	maps.DeleteFunc(names, func(_ string, differs bool) bool { return !differs })
	return slices.Sorted(maps.Keys(names))
}

// keepsSettings configures a session and shows that validate_only, good or bad, does not change what it answers.
func (r *run) keepsSettings(ctx context.Context, s Session) error {
	if err := r.configure(ctx, s); err != nil {
		return failed("validate_only leaves the way free for Configure", "after validate_only: %v", err)
	}
	first, err := r.answers(ctx, s)
	if err != nil {
		return err
	}
	bad := r.bad
	if bad == nil {
		bad = []byte("[]")
	}
	for _, config := range [][]byte{bad, r.config} {
		req := r.request(s, true)
		req.Config = config
		_, _ = r.plugin(s).Configure(ctx, req) // what it says of them, other checks hold against it
		again, err := r.answers(ctx, s)
		if err != nil {
			return err
		}
		if why := first.slower(again); why != nil {
			return why
		}
		if !again.same(first) {
			return failed("Validate works on a copy: what is in force stays until the next Configure",
				"after validate_only the answers were %s, before it they were %s", again, first)
		}
	}
	return nil
}

// workDir lists the working directory of a session's process; nothing when it is not ours.
func (r *run) workDir(s Session) (map[string]int64, error) {
	if s.Process() == nil {
		return nil, nil
	}
	out, err := entries(s.Process().Pid())
	if err != nil {
		return nil, r.gone(s, fmt.Errorf("look into its working directory: %w", err))
	}
	return out, nil
}

func checkSecrets(ctx context.Context, r *run) error {
	if !slices.ContainsFunc(r.info.Secrets, func(s *pluginv1.SecretSpec) bool { return s.Required }) {
		return skipped("Info requires no secret")
	}
	s, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	defer r.done(s)
	for _, only := range []bool{true, false} {
		req := r.request(s, only)
		req.Secrets = nil
		resp, err := r.plugin(s).Configure(ctx, req)
		if err == nil && len(resp.GetProblems()) == 0 {
			return failed("a required secret that is missing is a problem with the field secrets.NAME",
				"Configure (validate_only %t) without any secret succeeded, although Info requires some", only)
		}
	}
	return r.silent(ctx, s, "after Configure without its secrets")
}

func checkHealth(ctx context.Context, r *run) error {
	s, err := r.configured(ctx)
	if err != nil {
		return err
	}
	const interval = 100 * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errors.New("not within 5 s"))
	defer cancel()
	stream, err := r.plugin(s).Health(ctx, &pluginv1.HealthRequest{IntervalMs: uint32(interval.Milliseconds())})
	if err != nil {
		return r.gone(s, fmt.Errorf("Health: %s", said(err)))
	}
	for i := range 4 {
		resp, err := stream.Recv()
		switch {
		case err != nil && i == 0:
			return r.gone(s, failed("answer as soon as the stream begins", "Health gave no first answer: %s", said(err)))
		case err != nil:
			return r.gone(s, failed("answer again every interval_ms for as long as the host listens",
				"Health gave %d answers in 5 s with an interval of %v: %s", i, interval, said(err)))
		case resp.Status == pluginv1.HealthResponse_STATUS_NOT_SERVING:
			return failed("with these settings the gateway would ask it nothing; give others with --config",
				"Health says NOT_SERVING: %s", oneLine(resp.Detail))
		case resp.Status != pluginv1.HealthResponse_STATUS_SERVING:
			return failed("answer SERVING, NOT_SERVING or, after SIGTERM, DRAINING", "Health answers with status %v",
				resp.Status)
		}
	}
	return nil
}
