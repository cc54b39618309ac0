package main

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/plugins/internal/remote/remotetest"
	"github.com/yett-dev/yett/sdk/plugin"
	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

func TestMain(m *testing.M) {
	testkit.Prepare(testkit.Beside(8))
	goleak.VerifyTestMain(m)
}

// receiver is a fake collector that speaks HTTP and gRPC.
type receiver struct {
	collogspb.UnimplementedLogsServiceServer
	http   func(w http.ResponseWriter, r *http.Request) bool // true: it has answered
	grpc   func() (*collogspb.ExportLogsServiceResponse, error)
	mu     sync.Mutex
	taken  []uint64
	stores []string
	header http.Header
	path   string
}

func (r *receiver) take(req *collogspb.ExportLogsServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rl := range req.ResourceLogs {
		for _, a := range rl.Resource.Attributes {
			if a.Key == "yett.store_id" {
				r.stores = append(r.stores, a.Value.GetStringValue())
			}
		}
		for _, l := range rl.ScopeLogs[0].LogRecords {
			r.taken = append(r.taken, uint64(l.Attributes[0].Value.GetIntValue()))
		}
	}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.header, r.path = req.Header.Clone(), req.URL.Path
	r.mu.Unlock()
	if r.http != nil && r.http(w, req) {
		return
	}
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		body = z
	}
	raw, err := io.ReadAll(body)
	var msg collogspb.ExportLogsServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &msg)
	}
	if err != nil || req.Header.Get("Content-Type") != mediaProto || req.Method != http.MethodPost {
		http.Error(w, "no request of OTLP", http.StatusInternalServerError)
		return
	}
	r.take(&msg)
	w.Header().Set("Content-Type", mediaProto)
}

func (r *receiver) Export(ctx context.Context,
	req *collogspb.ExportLogsServiceRequest) (*collogspb.ExportLogsServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.mu.Lock()
	r.header = http.Header{}
	for k, v := range md {
		r.header[http.CanonicalHeaderKey(k)] = v
	}
	r.mu.Unlock()
	if r.grpc != nil {
		if out, err := r.grpc(); out != nil || err != nil {
			return out, err
		}
	}
	r.take(req)
	return &collogspb.ExportLogsServiceResponse{}, nil
}

func (r *receiver) serveHTTP(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return s.URL
}

func (r *receiver) serveGRPC(t *testing.T, opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(opts...)
	collogspb.RegisterLogsServiceServer(s, r)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return "http://" + l.Addr().String()
}

func loaded(t *testing.T, config map[string]any, secrets map[string]string) *plugintest.Client {
	t.Helper()
	p := plugintest.Load(t, newPlugin())
	if err := p.Configure(config, secrets); err != nil {
		t.Fatal(err)
	}
	return p
}

func batch(n int) *plugin.Batch {
	log := plugintest.Log{StoreID: "sto_A"}
	return log.Append(slices.Repeat([]string{`{"type":"decision","effect":"DENY"}`}, n)...)
}

func TestBothProtocols(t *testing.T) {
	token := "Bear" + "er " + "t0ken"
	for _, protocol := range []string{protocolHTTP, protocolGRPC} {
		for _, compression := range []string{"gzip", "none"} {
			r := &receiver{}
			endpoint := ""
			if protocol == protocolHTTP {
				endpoint = r.serveHTTP(t)
			} else {
				endpoint = r.serveGRPC(t)
			}
			p := loaded(t, map[string]any{
				"endpoint": endpoint, "protocol": protocol, "compression": compression,
				"headers": map[string]string{"X-Scope-OrgID": "acme"},
			}, map[string]string{"headers": "Authorization: " + token + "\nApi-Key:k\n"})
			b := batch(200)
			if at, err := p.Consume(t.Context(), b); err != nil || at != 200 {
				t.Fatalf("%s %s: acknowledged %d: %v", protocol, compression, at, err)
			}
			if len(r.taken) != 200 || !slices.IsSorted(r.taken) || r.stores[0] != "sto_A" {
				t.Errorf("%s %s: %d records arrived of %v", protocol, compression, len(r.taken), r.stores)
			}
			for name, want := range map[string]string{"Authorization": token, "Api-Key": "k", "X-Scope-Orgid": "acme"} {
				if got := r.header[http.CanonicalHeaderKey(name)]; len(got) != 1 || got[0] != want {
					t.Errorf("%s %s: header %s is %q", protocol, compression, name, got)
				}
			}
			if protocol == protocolHTTP && (r.path != "/v1/logs" ||
				(r.header.Get("Content-Encoding") == "gzip") != (compression == "gzip")) {
				t.Errorf("%s %s: path %s, headers %v", protocol, compression, r.path, r.header)
			}
			if err := p.Health(); err != nil {
				t.Error(err)
			}
		}
	}
}

func partial(n int64, message string) *collogspb.ExportLogsServiceResponse {
	return &collogspb.ExportLogsServiceResponse{PartialSuccess: &collogspb.ExportLogsPartialSuccess{RejectedLogRecords: n,
		ErrorMessage: message}}
}

// What an answer means. Nothing but an answer of OTLP that rejects nothing acknowledges anything.
func TestAnswersOverHTTP(t *testing.T) {
	ok, err := proto.Marshal(partial(0, "a warning"))
	if err != nil {
		t.Fatal(err)
	}
	one, err := proto.Marshal(partial(1, "too old"))
	if err != nil {
		t.Fatal(err)
	}
	negative, err := proto.Marshal(partial(-1, ""))
	if err != nil {
		t.Fatal(err)
	}
	st, err := proto.Marshal(&spb.Status{Code: 3, Message: "no such field"})
	if err != nil {
		t.Fatal(err)
	}
	const record = "record 1: the receiver refused it: "
	for _, c := range []struct {
		name, media string
		status      int
		body        string
		want        string // "": acknowledged
	}{
		{"nothing said", "", 200, "", ""},
		{"a warning", mediaProto, 200, string(ok), ""},
		{"JSON", "application/json; charset=utf-8", 200, `{"partialSuccess":{},"more":1}`, ""},
		{"no content", "", 204, "", ""},
		{"one rejected", mediaProto, 200, string(one), record + "too old"},
		{"one rejected in JSON", "application/json", 200, `{"partialSuccess":{"rejectedLogRecords":"1"}}`, record + "no reason given"},
		{"fewer than none", mediaProto, 200, string(negative), "it says that it rejected -1 records"},
		{"a page", "text/html", 200, "<html>sign in", `not an answer of an OTLP receiver: its content type is "text/html"`},
		{"rubbish", mediaProto, 200, "\xff\xff\xff", "not an answer of an OTLP receiver"},
		{"rubbish in JSON", "application/json", 200, "{", "not an answer of an OTLP receiver"},
		{"endless", mediaProto, 200, strings.Repeat("x", 200_000), "longer than 65536 bytes"},
		{"bad data", mediaProto, 400, string(st), record + "status 400: no such field"},
		{"too large", "text/plain", 413, "too\nlarge\x00", record + "status 413: too large"},
		{"no right", "application/json", 401, `{"code":16,"message":"who are you"}`, "status 401: who are you"},
		{"no such path", "text/html", 404, "<html>", "status 404"},
		{"elsewhere", "", 307, "", "status 307"},
		{"inside out", "text/plain", 500, strings.Repeat("é", 5000), "status 500: é"},
		{"busy", "", 503, "", "status 503"},
		{"too fast", "", 429, "", "status 429"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &receiver{}
			n := 0
			r.http = func(w http.ResponseWriter, _ *http.Request) bool {
				n++
				w.Header().Set("Location", "/elsewhere")
				if c.media != "" {
					w.Header().Set("Content-Type", c.media)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
				return true
			}
			p := loaded(t, map[string]any{"endpoint": r.serveHTTP(t), "retry_for": "0s"}, nil)
			at, err := p.Consume(t.Context(), batch(1))
			if c.want == "" {
				if err != nil || at != 1 {
					t.Fatalf("acknowledged %d: %v", at, err)
				}
				return
			}
			if err == nil || at != 0 || !strings.Contains(err.Error(), c.want) || n != 1 || len(err.Error()) > 700 {
				t.Fatalf("acknowledged %d after %d requests: %v", at, n, err)
			}
			if isRecord := strings.Contains(err.Error(), record); isRecord != strings.HasPrefix(c.want, record) ||
				isRecord != (p.Health() == nil) {
				t.Errorf("error %v, health %v", err, p.Health())
			}
		})
	}
}

func TestAnswersOverGRPC(t *testing.T) {
	quota, err := status.New(codes.ResourceExhausted,
		"quota").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		out  *collogspb.ExportLogsServiceResponse
		err  error
		want string
	}{
		{"a warning", partial(0, "careful"), nil, ""},
		{"one rejected", partial(1, "too old"), nil, "record 1: the receiver refused it: too old"},
		{"bad data", nil, status.Error(codes.InvalidArgument, "no"), "record 1: the receiver refused it: InvalidArgument: no"},
		{"a quota", nil, quota.Err(), "ResourceExhausted: quota"},
		{"a quota that says nothing", nil, status.Error(codes.ResourceExhausted, "quota"), "ResourceExhausted: quota"},
		{"no right", nil, status.Error(codes.PermissionDenied, "no"), "PermissionDenied: no"},
		{"unknown", nil, status.Error(codes.Unimplemented, "what"), "Unimplemented: what"},
		{"busy", nil, status.Error(codes.Unavailable, "busy"), "Unavailable: busy"},
		{"endless", partial(0, strings.Repeat("x", 200_000)), nil, "ResourceExhausted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &receiver{grpc: func() (*collogspb.ExportLogsServiceResponse, error) { return c.out, c.err }}
			p := loaded(t, map[string]any{"endpoint": r.serveGRPC(t), "protocol": protocolGRPC, "retry_for": "0s"}, nil)
			at, err := p.Consume(t.Context(), batch(1))
			if c.want == "" {
				if err != nil || at != 1 {
					t.Fatalf("acknowledged %d: %v", at, err)
				}
				return
			}
			if err == nil || at != 0 || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "record 1") != strings.Contains(c.want, "record 1") {
				t.Fatalf("acknowledged %d: %v", at, err)
			}
		})
	}
}

// A gRPC receiver refuses messages over its limit without saying which record is too large: the batch goes in parts.
func TestTooLargeForGRPC(t *testing.T) {
	r := &receiver{}
	p := loaded(t, map[string]any{"endpoint": r.serveGRPC(t, grpc.MaxRecvMsgSize(100_000)), "protocol": protocolGRPC}, nil)
	var log plugintest.Log
	b := log.Append(slices.Repeat([]string{`{"type":"scan","args":"` + strings.Repeat("x", 30_000) + `"}`}, 20)...)
	if at, err := p.Consume(t.Context(), b); err != nil || at != 20 || !slices.IsSorted(r.taken) || len(r.taken) != 20 {
		t.Fatalf("acknowledged %d, %v arrived: %v", at, r.taken, err)
	}
	huge := log.Append(`{}`, `{"args":"`+strings.Repeat("x", 200_000)+`"}`, `{}`)
	if at, err := p.Consume(t.Context(), huge); err == nil || at != 21 || !strings.Contains(err.Error(), "record 22: ") {
		t.Errorf("acknowledged %d: %v", at, err)
	}
}

// Configure does not need the receiver. Health says that it is away after the first batch, and finds out that it is
// back.
func TestReceiverAwayAndBack(t *testing.T) {
	for _, protocol := range []string{protocolHTTP, protocolGRPC} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			addr, _ := remotetest.Reserve(t)
			p := loaded(t, map[string]any{"endpoint": "http://" + addr, "protocol": protocol, "retry_for": "1s"}, nil)
			if err := p.Health(); err != nil {
				t.Fatal(err)
			}
			if at, err := p.Consume(t.Context(), batch(3)); err == nil || at != 0 || !strings.Contains(err.Error(), "refused") {
				t.Fatalf("%s: acknowledged %d: %v", protocol, at, err)
			}
			if p.Health() == nil {
				t.Fatalf("%s: the plugin says that it is healthy", protocol)
			}
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			r := &receiver{}
			web, rpc := &http.Server{Handler: r}, grpc.NewServer()
			collogspb.RegisterLogsServiceServer(rpc, r)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if protocol == protocolHTTP {
					_ = web.Serve(l)
				} else {
					_ = rpc.Serve(l)
				}
			}()
			for deadline := time.Now().Add(2 * time.Minute); p.Health() != nil; {
				if time.Now().After(deadline) {
					t.Fatalf("%s: it never finds out that the receiver is back", protocol)
				}
			}
			if at, err := p.Consume(t.Context(), batch(3)); err != nil || at != 3 {
				t.Errorf("%s: acknowledged %d: %v", protocol, at, err)
			}
			_ = web.Close()
			rpc.Stop()
			<-done
		})
	}
}

func TestTLS(t *testing.T) {
	pki := remotetest.NewPKI(t, "otlp.test")
	server := pki.Mutual()
	for _, protocol := range []string{protocolHTTP, protocolGRPC} {
		r := &receiver{}
		endpoint := ""
		if protocol == protocolHTTP {
			s := httptest.NewUnstartedServer(r)
			s.TLS = server.Clone()
			s.Config.ErrorLog = nil
			s.StartTLS()
			t.Cleanup(s.Close)
			endpoint = s.URL
		} else {
			endpoint = strings.Replace(r.serveGRPC(t, grpc.Creds(credentials.NewTLS(server.Clone()))), "http:", "https:", 1)
		}
		for name, c := range pki.Clients() {
			p := loaded(t, map[string]any{"endpoint": endpoint, "protocol": protocol, "tls": c.TLS, "retry_for": "0s"},
				c.Secrets())
			_, err := p.Consume(t.Context(), batch(1))
			if (err == nil) != (c.Want == "") || protocol == protocolHTTP && err != nil &&
				!strings.Contains(err.Error(), c.Want) {
				t.Errorf("%s, %s: %v", protocol, name, err)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "soon": 0, "99999999999999999999": 0,
		"Wed, 04 Mar 2026 05:07:07 GMT": time.Minute, "Wed, 04 Mar 2020 05:07:07 GMT": 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

// FuzzAnswer wants no answer to be taken for a good one unless it is one, and none to crash us.
func FuzzAnswer(f *testing.F) {
	f.Add(200, mediaProto, []byte{})
	f.Add(200, "application/json", []byte(`{"partialSuccess":{"rejectedLogRecords":"3"}}`))
	f.Add(400, mediaProto, []byte("\x08\x03\x12\x02no"))
	f.Fuzz(func(t *testing.T, code int, media string, body []byte) {
		resp := &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {media}}}
		if fail := refusal(resp, body); fail == nil || len(fail.Error()) > maxMessage+64 {
			t.Fatalf("%v", fail)
		}
		_, message, fail := accepted(resp, body)
		if fail == nil && len(body) > 0 && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(media)), "application/") {
			t.Fatalf("%q was taken for an answer", media)
		}
		if len(message) > maxMessage+8 {
			t.Fatalf("a message of %d bytes", len(message))
		}
	})
}
