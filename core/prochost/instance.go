package prochost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/quote"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

const (
	maxProblems = 16 // of Configure that are told
	// bytes of an answer to Check: as many come at once as calls are in flight, and a right one is far smaller
	maxUnary = 128 << 10

	// The colon keeps them apart from those of any call that a rule is about.
	smokeID     = "yett:smoke"
	smokeToolID = "yett:smoke/check"
)

// instance is a plugin's process that was asked who it is, has its settings and is watched.
type instance struct {
	*Session
	about   *described
	checks  *checks // nil: Check, one call at a time
	unary   atomic.Uint64
	flying  atomic.Int64
	serving atomic.Bool
	said    atomic.Pointer[health] // by its last health message
}

// prepare goes through the probe: Info, Configure, health, one call that means nothing.
func prepare(ctx context.Context, s *Session, before *described, strays *atomic.Uint64,
	moved func(*instance)) (*instance, error) {
	in := &instance{Session: s}
	var err error
	if in.about, err = in.ask(ctx, before); err != nil {
		return nil, err
	}
	if err := in.configure(ctx, false); err != nil {
		return nil, err
	}
	if err := in.listen(ctx, moved); err != nil {
		return nil, err
	}
	if s.spec.Kind == Authorizer && in.about.CheckStream {
		if in.checks, err = openChecks(s, strays); err != nil {
			return nil, err
		}
	}
	if !s.spec.NoSmoke {
		if err := in.smoke(ctx); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// ask calls Info and holds what it says against the rules, and against what the first process said.
func (in *instance) ask(ctx context.Context, before *described) (*described, error) {
	r, err := pluginv1.NewPluginClient(in.conn).Info(ctx, &pluginv1.InfoRequest{HostVersion: in.o.HostVersion,
		ApiVersions: []uint32{pluginv1.ProtocolVersion}})
	if err != nil {
		if status.Code(err) == codes.Unimplemented {
			return nil, refusef("it does not serve yett.plugin.v1")
		}
		return nil, fmt.Errorf("Info: %w", in.because(ctx, in.plain(err)))
	}
	about, err := describe(r, in.spec)
	if err != nil {
		return nil, err
	}
	if before != nil && !bytes.Equal(before.raw, about.raw) {
		return nil, differs(in.spec, "what Info says is not what it said at first")
	}
	if check := in.o.CheckConfig; check != nil && before == nil && about.ConfigSchema != "" {
		if err := check(about.ConfigSchema, in.spec.Config); err != nil {
			what := "config: "
			var fault interface{ SchemaPlace() string } // one that no settings can mend
			if errors.As(err, &fault) {
				what = ""
			}
			return nil, refusef("%s%s", what, quote.Short(err.Error(), 1<<10))
		}
	}
	return about, nil
}

// configure hands over the settings, or only asks whether they hold.
func (in *instance) configure(ctx context.Context, validateOnly bool) error {
	r, err := pluginv1.NewPluginClient(in.conn).Configure(ctx,
		&pluginv1.ConfigureRequest{Config: in.spec.Config, Secrets: in.secrets,
			Instance: in.spec.Name, Generation: in.spec.Generation, ValidateOnly: validateOnly})
	if status.Code(err) == codes.InvalidArgument {
		return refusef("it refuses its settings: %w", in.plain(err))
	}
	if err != nil {
		return fmt.Errorf("Configure: %w", in.because(ctx, in.plain(err)))
	}
	if len(r.Problems) == 0 {
		return nil
	}
	var text []string
	for i, p := range r.Problems {
		if i == maxProblems {
			text = append(text, fmt.Sprintf("and %d more", len(r.Problems)-i))
			break
		}
		line := quote.Short(in.spec.Hide.Hide(p.GetMessage()), 300) // before it is cut
		if p.GetField() != "" {
			line = quote.Short(in.spec.Hide.Hide(p.Field), 200) + ": " + line
		}
		text = append(text, line)
	}
	return refusef("it refuses its settings: %s", strings.Join(text, "; "))
}

// smoke makes one call whose answer only has to be an answer. What it says does not matter, nor whether it can say
// anything now: that is health's business.
func (in *instance) smoke(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	if deadline.IsZero() {
		deadline = time.Now().Add(in.spec.StartTimeout)
	}
	var err error
	switch in.spec.Kind {
	case Authorizer:
		c := &chain.Call{KeyID: smokeID, KeyName: smokeID, AgentID: smokeID, SessionID: smokeID, ToolID: smokeToolID,
			Operation: "check", CallID: smokeID, Now: time.Now()}
		var got answer
		if got, err = in.check(ctx, &request{deadline: deadline, generation: in.spec.Generation, call: c}, func() {}); err ==
			nil && got.failure == "" {
			_, err = got.verdict()
		}
	case Scanner:
		input := &chain.Input{ToolID: smokeToolID, AgentID: smokeID}
		var got *pluginv1.ScanResponse
		if got, err = in.scan(ctx, input, deadline); err == nil && got.Error == "" {
			_, err = findings(got, in.spec.Name, in.about.kinds, input)
		}
	}
	if err != nil {
		return fmt.Errorf("a first call that means nothing: %w", in.because(ctx, err))
	}
	return nil
}

// check asks one check. The caller judges the answer. place is called once.
func (in *instance) check(ctx context.Context, r *request, place func()) (answer, error) {
	if in.checks != nil {
		return in.checks.check(ctx, r, place)
	}
	defer place()
	ctx, cancel := context.WithDeadline(ctx, r.deadline)
	defer cancel()
	r.id = in.unary.Add(1)
	out, got := r.encode(), answer{}
	err := in.conn.Invoke(ctx, pluginv1.Authorizer_Check_FullMethodName, &out, &got, grpc.ForceCodecV2(checkCodec{}),
		grpc.MaxCallRecvMsgSize(maxUnary))
	if err == nil && got.id != r.id {
		return answer{}, wrongf("its id is %d, %d was asked", got.id, r.id)
	}
	return got, in.failed(ctx, err)
}

// scan asks for one text.
func (in *instance) scan(ctx context.Context, input *chain.Input, deadline time.Time) (*pluginv1.ScanResponse, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	req := &pluginv1.ScanRequest{Id: in.unary.Add(1), DeadlineUnixNano: deadline.UnixNano(),
		Generation: in.spec.Generation, Text: []byte(input.Text), ToolId: input.ToolID, AgentId: input.AgentID,
		ContentType: input.ContentType}
	r, err := pluginv1.NewScannerClient(in.conn).Scan(ctx, req)
	if err != nil {
		return nil, in.failed(ctx, err)
	}
	if r.Id != req.Id {
		return nil, wrongf("its id is %d, %d was asked", r.Id, req.Id)
	}
	return r, nil
}

// failed says of what kind the error of a call is: of time, of the connection, or the plugin's own word.
func (in *instance) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() == context.Canceled:
		return ctx.Err()
	case ctx.Err() != nil || status.Code(err) == codes.DeadlineExceeded:
		return errLate
	case in.ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrLost, context.Cause(in.ctx))
	case status.Code(err) == codes.Unavailable:
		return fmt.Errorf("%w: %w", ErrLost, quoted(err))
	}
	return fmt.Errorf("%w: %w", ErrAnswer, quoted(err))
}

// quoted is plain for what others than operators may read: of a status they see the code.
func quoted(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	return &chain.Spoken{Err: errors.New(s.Code().String()), Words: chain.Heard(s.Message())}
}

// plain hides the plugin's secrets, before the text is cut.
func (in *instance) plain(err error) error {
	if s, ok := status.FromError(err); ok {
		err = status.Error(s.Code(), in.spec.Hide.Hide(s.Message()))
	}
	return plain(err)
}

// plain makes a short printable error of a gRPC status, whose text comes from the plugin.
func plain(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	return fmt.Errorf("%s (%s)", quote.Short(s.Message(), 300), s.Code())
}
