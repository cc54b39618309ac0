package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// fake is the state of the one plugin of this process.
type fake struct {
	mode    *mode
	arg     string
	out     string
	version string
	unary   bool
	stdout  *os.File // go-plugin puts others in the place of os.Stdout and os.Stderr
	stderr  *os.File

	server     atomic.Pointer[grpc.Server]
	configured atomic.Bool
	calls      atomic.Uint64
	batches    atomic.Uint64
	busy       sync.WaitGroup // checks that a drain waits for
	drain      chan struct{}
	mu         sync.Mutex // of the file
}

const schema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,` +
	`"properties":{"note":{"type":"string","maxLength":64}}}`

func (f *fake) info() *pluginv1.InfoResponse {
	r := &pluginv1.InfoResponse{
		Name: "fake", Version: f.version, Description: "Does one thing wrong.",
		Kinds: []pluginv1.Kind{pluginv1.Kind_KIND_AUTHORIZER, pluginv1.Kind_KIND_SCANNER,
			pluginv1.Kind_KIND_SUBSCRIBER}, ApiVersions: []uint32{1}, ConfigSchema: schema, ExampleConfig: `{"note":"as it is"}`,
		Capabilities: &pluginv1.Capabilities{CheckStream: !f.unary},
		Secrets:      []*pluginv1.SecretSpec{{Name: "token", Description: "What it must not tell."}},
		Findings:     []*pluginv1.FindingKind{{Kind: "FAKE_MARK", Description: "The word FAKEMARK."}},
	}
	if f.mode.info != nil {
		f.mode.info(f, r)
	}
	return r
}

// note appends one line of JSON to FAKE_OUT. It begins with a line feed, so that a process killed in the middle of its
// last line spoils no other.
func (f *fake) note(what string, v any) {
	if f.out == "" {
		return
	}
	line := bytes.NewBufferString("\n")
	enc := json.NewEncoder(line)
	enc.SetEscapeHTML(false) // records are compared byte by byte
	if err := enc.Encode(map[string]any{what: v}); err != nil {
		f.die("note: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := os.OpenFile(f.out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		f.die("note: %v", err)
	}
	defer file.Close()
	if _, err := file.Write(line.Bytes()); err != nil {
		f.die("note: %v", err)
	}
}

// die ends the process as a crash would.
func (f *fake) die(format string, args ...any) {
	fmt.Fprintf(f.stderr, "fake: "+format+"\n", args...)
	os.Exit(3)
}

// onTerm drains when the host asks to end: what has begun is answered first.
func (f *fake) onTerm() {
	if f.mode.deaf {
		signal.Ignore(syscall.SIGTERM)
		return
	}
	if f.mode.rude {
		return
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		close(f.drain)
		f.busy.Wait()
		f.flush()
		f.note("end", map[string]any{"pid": os.Getpid()})
		os.Exit(0)
	}()
}

// flush lets answers that were given reach the host. Streams that do not end by themselves are cut.
func (f *fake) flush() {
	g := f.server.Load()
	if g == nil {
		return
	}
	t := time.AfterFunc(200*time.Millisecond, g.Stop)
	defer t.Stop()
	g.GracefulStop()
}

type pluginService struct {
	pluginv1.UnimplementedPluginServer
	f *fake
}

func (s *pluginService) Info(ctx context.Context, _ *pluginv1.InfoRequest) (*pluginv1.InfoResponse, error) {
	if s.f.mode.onInfo != nil {
		s.f.mode.onInfo(s.f, ctx)
	}
	return s.f.info(), nil
}

func (s *pluginService) Configure(ctx context.Context, r *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse,
	error) {
	if s.f.mode.configure != nil {
		if resp, err := s.f.mode.configure(s.f, ctx, r); resp != nil || err != nil {
			return resp, err
		}
	}
	var config struct {
		Note string `json:"note"`
	}
	if len(r.Config) > 0 {
		var members map[string]json.RawMessage
		dec := json.NewDecoder(bytes.NewReader(r.Config))
		dec.DisallowUnknownFields()
		if err := errors.Join(json.Unmarshal(r.Config, &members), dec.Decode(&config)); err != nil || members == nil ||
			!utf8.Valid(r.Config) {
			return &pluginv1.ConfigureResponse{Problems: []*pluginv1.Problem{{Message: fmt.Sprintf("no settings: %v", err)}}},
				nil
		}
	}
	if len(config.Note) > 64 {
		return &pluginv1.ConfigureResponse{Problems: []*pluginv1.Problem{{Field: "/note", Message: "at most 64 bytes"}}}, nil
	}
	if r.ValidateOnly {
		return &pluginv1.ConfigureResponse{}, nil
	}
	secrets := map[string]string{}
	for name, path := range r.Secrets {
		value, err := os.ReadFile(path)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "secret %s: %v", name, err)
		}
		secrets[name] = string(value)
	}
	s.f.note("configure", map[string]any{"config": string(r.Config), "secrets": secrets, "paths": r.Secrets,
		"instance": r.Instance, "generation": r.Generation})
	s.f.configured.Store(true)
	return &pluginv1.ConfigureResponse{}, nil
}

func (s *pluginService) Health(r *pluginv1.HealthRequest,
	stream grpc.ServerStreamingServer[pluginv1.HealthResponse]) error {
	every := time.Duration(max(r.IntervalMs, 10)) * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := uint64(0); ; n++ {
		now := &pluginv1.HealthResponse{Status: pluginv1.HealthResponse_STATUS_SERVING}
		select {
		case <-s.f.drain:
			now.Status = pluginv1.HealthResponse_STATUS_DRAINING
		default:
		}
		if s.f.mode.health != nil {
			if err := s.f.mode.health(s.f, stream.Context(), n, now); err != nil {
				return err
			}
		}
		if err := stream.Send(now); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-tick.C:
		}
	}
}

type authorizerService struct {
	pluginv1.UnimplementedAuthorizerServer
	f *fake
}

func (s *authorizerService) Check(ctx context.Context, r *pluginv1.CheckRequest) (*pluginv1.CheckResponse, error) {
	s.f.busy.Add(1)
	defer s.f.busy.Done()
	answers, err := s.f.answers(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(answers) == 0 {
		<-ctx.Done() // never
		return nil, ctx.Err()
	}
	return answers[0], nil
}

// CheckStream answers what needs no time where it reads it: nothing is faster.
func (s *authorizerService) CheckStream(
	stream grpc.BidiStreamingServer[pluginv1.CheckRequest, pluginv1.CheckResponse],
) error {
	var mu sync.Mutex
	send := func(answers []*pluginv1.CheckResponse) error {
		mu.Lock()
		defer mu.Unlock()
		for _, a := range answers {
			if err := stream.Send(a); err != nil {
				return err
			}
		}
		return nil
	}
	failed := make(chan error, 1)
	var begun sync.WaitGroup
	for {
		r, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				begun.Wait()
				return nil
			}
			return err
		}
		if s.f.mode.check != nil || strings.HasPrefix(r.GetCall().GetToolId(), "fake/slow/") {
			over := s.f.mode.oneByOne && !trial(r.GetCall().GetToolId())
			begun.Add(1)
			s.f.busy.Go(func() {
				defer begun.Done()
				answers, err := s.f.answers(stream.Context(), r)
				if err != nil {
					answers = []*pluginv1.CheckResponse{{Id: r.Id, Error: err.Error()}}
				}
				if err = send(answers); err == nil && over {
					err = errOver
				}
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
			if over {
				return <-failed
			}
			continue
		}
		if err := send([]*pluginv1.CheckResponse{s.f.policy(r)}); err != nil {
			return err
		}
	}
}

var errOver = status.Error(codes.Aborted, "one call is enough")

// trial reports whether a call is the one that hosts make before they take a plugin into service. Modes are right about
// it, so that they come into service, and it does not count.
func trial(tool string) bool { return strings.HasPrefix(tool, "yett:") }

// answers is what goes back for one request: none for never.
func (f *fake) answers(ctx context.Context, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
	if !f.configured.Load() && !f.mode.first {
		return []*pluginv1.CheckResponse{{Id: r.Id, Error: "not configured"}}, nil
	}
	if f.mode.check != nil && (f.mode.first || !trial(r.GetCall().GetToolId())) {
		return f.mode.check(f, ctx, f.calls.Add(1), r)
	}
	if strings.HasPrefix(r.GetCall().GetToolId(), "fake/slow/") {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(f.duration(100 * time.Millisecond)):
		}
	}
	return []*pluginv1.CheckResponse{f.policy(r)}, nil
}

// policy is what a good plugin answers.
func (f *fake) policy(r *pluginv1.CheckRequest) *pluginv1.CheckResponse {
	a := &pluginv1.CheckResponse{Id: r.Id}
	c := r.Call
	if r.Id == 0 || c == nil || c.ToolId == "" || c.AgentId == "" || len(c.Digest) != 32 || !objectOrNone(c.Args) ||
		!objectOrNone(c.Context) || past(r.DeadlineUnixNano) {
		a.Error = "the request is malformed or late"
		return a
	}
	switch tool, _ := strings.CutPrefix(c.ToolId, "fake/"); {
	case tool == c.ToolId:
		a.Effect = pluginv1.CheckResponse_EFFECT_ABSTAIN
		return a
	case strings.HasPrefix(tool, "permit/"), strings.HasPrefix(tool, "slow/"):
		a.Effect, a.Code = pluginv1.CheckResponse_EFFECT_PERMIT, "FAKE_PERMIT"
	case strings.HasPrefix(tool, "deny/"):
		a.Effect, a.Code, a.Reason = pluginv1.CheckResponse_EFFECT_DENY, "FAKE_DENY", "version "+f.version
	case strings.HasPrefix(tool, "defer/"):
		a.Effect, a.Code, a.Approvals = pluginv1.CheckResponse_EFFECT_DEFER, "FAKE_DEFER", 1
	default:
		a.Effect = pluginv1.CheckResponse_EFFECT_ABSTAIN
	}
	return a
}

// past says whether a deadline is over.
func past(unixNano int64) bool { return time.Now().UnixNano() > unixNano }

func objectOrNone(text []byte) bool {
	var members map[string]json.RawMessage
	return len(text) == 0 || utf8.Valid(text) && json.Unmarshal(text, &members) == nil && members != nil
}

// permit is the answer that no misbehaviour may turn into a permit.
func permit(r *pluginv1.CheckRequest) *pluginv1.CheckResponse {
	return &pluginv1.CheckResponse{Id: r.Id, Effect: pluginv1.CheckResponse_EFFECT_PERMIT, Code: "FAKE_WRONG",
		Reason: "nobody may believe this"}
}

type scannerService struct {
	pluginv1.UnimplementedScannerServer
	f *fake
}

const markWord = "FAKEMARK"

func (s *scannerService) Scan(ctx context.Context, r *pluginv1.ScanRequest) (*pluginv1.ScanResponse, error) {
	s.f.busy.Add(1)
	defer s.f.busy.Done()
	if !s.f.configured.Load() && !s.f.mode.first {
		return nil, status.Error(codes.FailedPrecondition, "not configured")
	}
	if s.f.mode.scan != nil && (s.f.mode.first || !trial(r.ToolId)) {
		return s.f.mode.scan(s.f, ctx, s.f.calls.Add(1), r)
	}
	if r.Id == 0 || !utf8.Valid(r.Text) || past(r.DeadlineUnixNano) {
		return nil, status.Error(codes.InvalidArgument, "the request is malformed or late")
	}
	return found(r), nil
}

// found are the right findings, at most 256.
func found(r *pluginv1.ScanRequest) *pluginv1.ScanResponse {
	a := &pluginv1.ScanResponse{Id: r.Id}
	for at := 0; len(a.Findings) < 256; {
		i := bytes.Index(r.Text[at:], []byte(markWord))
		if i < 0 {
			break
		}
		at += i + len(markWord)
		a.Findings = append(a.Findings, &pluginv1.Finding{Kind: "FAKE_MARK", Start: uint64(at - len(markWord)),
			End: uint64(at), Confidence: 1, Severity: pluginv1.Finding_SEVERITY_HIGH, Suggested: pluginv1.Finding_ACTION_REDACT})
	}
	return a
}
