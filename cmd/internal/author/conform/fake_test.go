package conform

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/yett-dev/yett/core/supervise"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// fake is a plugin of all three kinds, written on the bare stubs, that keeps every rule but the one that defect names.
type fake struct {
	pluginv1.UnimplementedPluginServer
	pluginv1.UnimplementedAuthorizerServer
	pluginv1.UnimplementedScannerServer
	pluginv1.UnimplementedSubscriberServer
	defect string

	mu         sync.Mutex
	infos      int
	configured bool
	deny       string // the setting: a word; calls whose tool has it are denied
	asked      int
	looked     bool
	streams    int
	busy       int
}

const fakeSchema = `{"type":"object","additionalProperties":false,"properties":{"deny":{"type":"string","maxLength":64}}}`

func (f *fake) is(defect string) bool { return f.defect == defect }

func (f *fake) Info(_ context.Context, req *pluginv1.InfoRequest) (*pluginv1.InfoResponse, error) {
	f.mu.Lock()
	f.infos++
	n := f.infos
	f.mu.Unlock()
	out := &pluginv1.InfoResponse{
		Name: "fake", Version: "1.0.0", Kinds: []pluginv1.Kind{1, 2, 3}, ApiVersions: []uint32{1}, ConfigSchema: fakeSchema,
		ExampleConfig: `{"deny":"conform-unknown"}`,
		Capabilities:  &pluginv1.Capabilities{CheckStream: true, CacheKeyFields: []string{"tool_id", "args.amount"}},
		Description:   "a fake", Secrets: []*pluginv1.SecretSpec{{Name: "token", Required: true}},
		Findings: []*pluginv1.FindingKind{{Kind: "MAIL"}},
	}
	switch f.defect {
	case "info differs":
		out.Description = strings.Repeat("x", n)
	case "no version":
		out.Version = ""
	case "shouting name":
		out.Name = "FAKE"
	case "odd finding kind":
		out.Findings[0].Kind = "mail"
	case "odd key field":
		out.Capabilities.CacheKeyFields = []string{"colour"}
	case "many key fields":
		out.Capabilities.CacheKeyFields = slices.Repeat([]string{"args.a"}, 40)
	case "wants many calls":
		out.Capabilities.MaxInFlight = 5000
	case "large example":
		out.ExampleConfig = `{"deny":"` + strings.Repeat(" ", 65<<10) + `"}`
	case "secret in two lines":
		out.Secrets[0].Description = "the\ntoken"
	case "twice the kind":
		out.Kinds = append(out.Kinds, 1)
	case "speaks 2":
		out.ApiVersions = []uint32{2}
	case "knows versions":
		if len(req.ApiVersions) != 1 || req.ApiVersions[0] != 1 {
			return nil, status.Error(codes.FailedPrecondition, "incompatible")
		}
	case "unnamed kind":
		out.Kinds = out.Kinds[:2]
	case "schema is text":
		out.ConfigSchema = "see the manual"
	case "schema refuses example":
		out.ExampleConfig = `{"deny":7}`
	case "no stream":
		out.Capabilities.CheckStream = false
	}
	return out, nil
}

func (f *fake) Configure(_ context.Context, req *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	problem := func(field, text string) (*pluginv1.ConfigureResponse, error) {
		return &pluginv1.ConfigureResponse{Problems: []*pluginv1.Problem{{Field: field, Message: text}}}, nil
	}
	if f.is("no settings fit") {
		return problem("/deny", "not today")
	}
	if req.Secrets["token"] == "" && !f.is("secret not needed") {
		return problem("secrets.token", "is required")
	}
	var set struct{ Deny string }
	dec := json.NewDecoder(strings.NewReader(string(req.Config)))
	if !f.is("takes unknown settings") {
		dec.DisallowUnknownFields()
	}
	var members map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(req.Config, &members), dec.Decode(&set)); (err != nil || members == nil ||
		!utf8.Valid(req.Config)) && !f.is("takes any settings") {
		return nil, status.Error(codes.InvalidArgument, "no settings")
	}
	if req.ValidateOnly && f.is("late after a look") {
		f.mu.Lock()
		f.looked = f.looked || f.configured
		f.mu.Unlock()
	}
	if req.ValidateOnly && !f.is("validate applies") && !f.is("validate replaces") {
		return &pluginv1.ConfigureResponse{}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.is("validate replaces") && req.ValidateOnly {
		f.asked++
		set.Deny = "nothing"
		if !f.configured {
			return &pluginv1.ConfigureResponse{}, nil
		}
	}
	f.configured, f.deny = true, set.Deny
	return &pluginv1.ConfigureResponse{}, nil
}

func (f *fake) Health(req *pluginv1.HealthRequest, st pluginv1.Plugin_HealthServer) error {
	if f.is("health is silent") {
		<-st.Context().Done()
		return nil
	}
	tick := time.NewTicker(time.Duration(max(req.IntervalMs, 1)) * time.Millisecond)
	defer tick.Stop()
	state := pluginv1.HealthResponse_STATUS_SERVING
	if f.is("not serving") {
		state = pluginv1.HealthResponse_STATUS_NOT_SERVING
	}
	for {
		if err := st.Send(&pluginv1.HealthResponse{Status: state}); err != nil {
			return err
		}
		if f.is("health once") {
			return nil
		}
		select {
		case <-tick.C:
		case <-st.Context().Done():
			return nil
		}
	}
}

func (f *fake) ready(kind string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.configured && !f.is(kind+" before Configure") {
		return status.Error(codes.FailedPrecondition, "no settings yet")
	}
	return nil
}

// whole says whether a request is, and lets pass what the defect names.
func (f *fake) whole(q *pluginv1.CheckRequest) error {
	lax := func(what string) bool { return f.is("takes " + what) }
	switch {
	case q.Id == 0 && !lax("no id"), q.Call == nil && !lax("no call"):
		return status.Error(codes.InvalidArgument, "not whole")
	case len(q.GetCall().GetArgs()) > 0 && (!isObject(q.Call.Args) || !utf8.Valid(q.Call.Args)) && !lax("bad args"):
		return status.Error(codes.InvalidArgument, "args")
	case len(q.GetCall().GetContext()) > 0 && !isObject(q.Call.Context) && !lax("bad context"):
		return status.Error(codes.InvalidArgument, "context")
	case q.Call != nil && len(q.Call.Digest) != 32 && !lax("no digest"):
		return status.Error(codes.InvalidArgument, "digest")
	}
	late := time.Now().UnixNano() > q.DeadlineUnixNano
	if late && !lax("late calls") && !f.is("answers late") {
		return status.Error(codes.DeadlineExceeded, "late")
	}
	return nil
}

func (f *fake) Check(ctx context.Context, q *pluginv1.CheckRequest) (*pluginv1.CheckResponse, error) {
	if err := f.ready("check"); err != nil {
		return nil, err
	}
	if err := f.whole(q); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.asked++
	asked, deny, looked := f.asked, f.deny, f.looked
	f.busy++
	busy := f.busy
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.busy--; f.mu.Unlock() }()
	if looked || f.is("late now and then") && asked%6 == 0 {
		return nil, status.Error(codes.DeadlineExceeded, "what it asks is slow")
	}
	out := &pluginv1.CheckResponse{Id: q.Id, Effect: pluginv1.CheckResponse_EFFECT_ABSTAIN}
	if deny != "" && strings.Contains(q.GetCall().GetToolId(), deny) {
		out.Effect, out.Code, out.Reason = pluginv1.CheckResponse_EFFECT_DENY, "FAKE_DENY", "not this one"
	}
	return out, f.spoil(ctx, q, out, asked, busy)
}

func (f *fake) spoil(ctx context.Context, q *pluginv1.CheckRequest, out *pluginv1.CheckResponse,
	asked, busy int) error {
	switch f.defect {
	case "permits":
		out.Effect, out.Code = pluginv1.CheckResponse_EFFECT_PERMIT, "OK"
	case "defers":
		out.Effect, out.Code = pluginv1.CheckResponse_EFFECT_DEFER, "LATER"
	case "only errors":
		out.Error = "no connection"
	case "unknown effect":
		out.Effect = 9
	case "no code":
		out.Code = ""
	case "odd code":
		out.Code = "not allowed"
	case "long reason":
		out.Reason = strings.Repeat("no ", 400)
	case "wrong id":
		out.Id++
	case "loses large ids":
		out.Id = uint64(uint32(out.Id))
	case "odd approver":
		out.Approvers = []string{"anna"}
	case "odd approver for a deferral":
		out.Effect, out.Code, out.Approvers = pluginv1.CheckResponse_EFFECT_DEFER, "LATER", []string{"role:king"}
	case "negative ttl":
		out.TtlMs = -1
	case "approvals for a denial":
		out.Approvals = 2
	case "abstains with an odd code":
		out.Effect, out.Code = pluginv1.CheckResponse_EFFECT_ABSTAIN, "no business"
	case "endless ttl":
		out.TtlMs = 1 << 60
	case "escapes":
		out.Error = "\x1b[2J all is well"
	case "huge answer":
		out.Reason = strings.Repeat("no ", 2<<20)
	case "permits large":
		if len(q.GetCall().GetArgs()) > 1<<19 {
			out.Effect, out.Code = pluginv1.CheckResponse_EFFECT_PERMIT, "OK"
		}
	case "moody":
		if asked%11 == 0 {
			out.Effect, out.Code = pluginv1.CheckResponse_EFFECT_ABSTAIN, ""
		}
	case "mixes up ids":
		wait(ctx, 2*time.Millisecond)
		if busy > 32 {
			out.Id = 1 << 40
		}
	case "one at a time":
		wait(ctx, 5*time.Millisecond)
		if busy > 1 {
			return status.Error(codes.ResourceExhausted, "busy")
		}
	case "slow":
		wait(ctx, 80*time.Millisecond)
	case "answers late":
		if time.Until(time.Unix(0, q.DeadlineUnixNano)) < time.Second {
			wait(ctx, 2*lateBy)
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (f *fake) CheckStream(st pluginv1.Authorizer_CheckStreamServer) error {
	var mu sync.Mutex
	var work sync.WaitGroup
	defer work.Wait()
	n := 0
	for {
		q, err := st.Recv()
		if errors.Is(err, io.EOF) {
			work.Wait()
			if f.is("stream never ends") {
				<-st.Context().Done()
			}
			return nil
		}
		if err != nil {
			return err
		}
		n++
		if f.is("loses one") && n == 500 {
			continue
		}
		if f.is("stream breaks off") && n == 300 {
			return nil
		}
		work.Go(func() {
			out, err := f.Check(st.Context(), q)
			if err != nil {
				out = &pluginv1.CheckResponse{Id: q.Id, Error: err.Error()}
			}
			if f.is("stream differs") {
				out.Effect, out.Code = pluginv1.CheckResponse_EFFECT_DENY, "STREAM"
			}
			if f.is("malformed answered on stream") {
				out.Error, out.Effect = "", pluginv1.CheckResponse_EFFECT_ABSTAIN
			}
			mu.Lock()
			defer mu.Unlock()
			_ = st.Send(out)
			if f.is("answers twice") && q.Id == 7919*10+1 || f.is("answers unasked") && q.Id == 7919*20+1 {
				if f.is("answers unasked") {
					out.Id = 5
				}
				_ = st.Send(out)
			}
		})
		if f.is("malformed ends stream") && f.whole(q) != nil {
			return status.Error(codes.InvalidArgument, "not whole")
		}
	}
}

func (f *fake) Scan(_ context.Context, q *pluginv1.ScanRequest) (*pluginv1.ScanResponse, error) {
	if err := f.ready("scan"); err != nil {
		return nil, err
	}
	if q.Id == 0 && !f.is("scans without id") || time.Now().UnixNano() > q.DeadlineUnixNano && !f.is("scans late") {
		return nil, status.Error(codes.InvalidArgument, "not whole")
	}
	if !utf8.Valid(q.Text) && !f.is("cuts broken text") {
		return nil, status.Error(codes.InvalidArgument, "no UTF-8")
	}
	out := &pluginv1.ScanResponse{Id: q.Id}
	at := strings.Index(string(q.Text), "anna@example.com")
	if at < 0 {
		if f.is("cuts broken text") && len(q.Text) > 0 {
			out.Findings = []*pluginv1.Finding{{Kind: "MAIL", Start: 0, End: uint64(len(q.Text)) + 1, Severity: 2}}
		}
		if f.is("cuts characters") && strings.Contains(string(q.Text), "☃") {
			out.Findings = []*pluginv1.Finding{{Kind: "MAIL", Start: 0, End: uint64(strings.Index(string(q.Text), "☃")) + 1,
				Severity: 2}}
		}
		if f.is("no large texts") && len(q.Text) > 1<<19 {
			out.Error = "too large"
		}
		return out, nil
	}
	hit := &pluginv1.Finding{Kind: "MAIL", Start: uint64(at), End: uint64(at) + 16, Confidence: 0.9,
		Severity: pluginv1.Finding_SEVERITY_LOW}
	switch f.defect {
	case "undeclared kind":
		hit.Kind = "PHONE"
	case "outside":
		hit.End = uint64(len(q.Text)) + 1
	case "empty finding":
		hit.End = hit.Start
	case "no severity":
		hit.Severity = 0
	case "sure beyond measure":
		hit.Confidence = float32(math.NaN())
	case "replaces unasked":
		hit.Replacement = "x"
	case "wrong scan id":
		out.Id++
	case "scan differs":
		f.mu.Lock()
		if f.asked++; f.asked%5 == 0 {
			hit.End--
		}
		f.mu.Unlock()
	}
	out.Findings = []*pluginv1.Finding{hit}
	return out, nil
}

func (f *fake) Consume(st pluginv1.Subscriber_ConsumeServer) error {
	if err := f.ready("consume"); err != nil {
		return err
	}
	f.mu.Lock()
	f.streams++
	mine := f.streams
	f.mu.Unlock()
	batches := 0
	for {
		b, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		batches++
		if !f.sound(b) {
			return status.Error(codes.InvalidArgument, "contradicts itself")
		}
		f.mu.Lock()
		newer := f.streams > mine
		f.mu.Unlock()
		ack := &pluginv1.Ack{Seq: b.LastSeq}
		switch {
		case f.is("acks beyond"):
			ack.Seq += 5
		case f.is("acks backwards") && batches == 3:
			ack.Seq = 1
		case f.is("never acks"):
			continue
		case f.is("takes nothing"):
			ack = &pluginv1.Ack{Seq: b.FirstSeq - 1, Error: "disk full"}
		case f.is("no gaps") && b.Gap != nil:
			return status.Error(codes.InvalidArgument, "a gap")
		case f.is("no empty batches") && len(b.Records) == 0 && b.Gap == nil:
			return status.Error(codes.InvalidArgument, "empty")
		case f.is("second ends first") && newer:
			return status.Error(codes.Aborted, "there is another one")
		case f.is("remembers") && b.FirstSeq == 6 && mine == 3:
			return status.Error(codes.AlreadyExists, "had it")
		}
		if err := st.Send(ack); err != nil {
			return err
		}
	}
}

func (f *fake) sound(b *pluginv1.Batch) bool {
	if f.is("believes batches") {
		return true
	}
	last := b.FirstSeq - 1
	for _, r := range b.Records {
		if r.Seq <= last || r.Seq > b.LastSeq || !isObject(r.Json) {
			return false
		}
		last = r.Seq
	}
	return b.StoreId != "" && b.FirstSeq > 0 && b.FirstSeq <= b.LastSeq
}

// piped is a session over a pipe within this process.
type piped struct {
	conn   *grpc.ClientConn
	server *grpc.Server
	served chan struct{}
}

func (p *piped) Conn() grpc.ClientConnInterface { return p.conn }
func (p *piped) Process() *supervise.Process    { return nil }

func (p *piped) Close(context.Context) error {
	err := p.conn.Close()
	p.server.Stop()
	<-p.served
	return err
}

// opener opens a new fake for each session, as a new process would be.
func opener(t *testing.T, defect string, kinds ...string) func(context.Context) (Session, error) {
	return func(context.Context) (Session, error) {
		lis := bufconn.Listen(1 << 20)
		f := &fake{defect: defect}
		p := &piped{server: grpc.NewServer(grpc.MaxRecvMsgSize(maxAnswer), grpc.MaxSendMsgSize(64<<20)),
			served: make(chan struct{})}
		pluginv1.RegisterPluginServer(p.server, f)
		pluginv1.RegisterAuthorizerServer(p.server, f)
		if !slices.Contains(kinds, "no scanner") {
			pluginv1.RegisterScannerServer(p.server, f)
		}
		pluginv1.RegisterSubscriberServer(p.server, f)
		go func() {
			defer close(p.served)
			if err := p.server.Serve(lis); err != nil {
				t.Error(err)
			}
		}()
		conn, err := grpc.NewClient("passthrough:fake", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
		p.conn = conn
		return p, err
	}
}
