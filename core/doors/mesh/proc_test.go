package mesh_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"google.golang.org/grpc"
)

// bufferedModes are those that the door takes.
func bufferedModes() *procv3.ProtocolConfiguration {
	return &procv3.ProtocolConfiguration{ResponseBodyMode: modev3.ProcessingMode_BUFFERED}
}

func headerMap(pairs ...string) *corev3.HeaderMap {
	m := new(corev3.HeaderMap)
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return m
}

func requestHead(conf *procv3.ProtocolConfiguration, pairs ...string) *procv3.ProcessingRequest {
	pairs = append([]string{":authority", "api.example", ":method", "GET", ":path", "/x"}, pairs...)
	return &procv3.ProcessingRequest{ProtocolConfig: conf, Request: &procv3.ProcessingRequest_RequestHeaders{
		RequestHeaders: &procv3.HttpHeaders{Headers: headerMap(pairs...), EndOfStream: true}}}
}

func responseHead(end bool, pairs ...string) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &procv3.HttpHeaders{Headers: headerMap(pairs...), EndOfStream: end}}}
}

func responseBody(body string, end bool) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseBody{
		ResponseBody: &procv3.HttpBody{Body: []byte(body), EndOfStream: end}}}
}

// exchange sends messages one after the other and gives the answers; it ends with the first immediate response.
func exchange(t *testing.T, conn *grpc.ClientConn, key string, in ...*procv3.ProcessingRequest) (
	out []*procv3.ProcessingResponse) {
	t.Helper()
	stream, err := procv3.NewExternalProcessorClient(conn).Process(as(t, key))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range in {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if out = append(out, got); got.GetImmediateResponse() != nil {
			return out
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v", err)
	}
	return out
}

// whole is the exchange of one response.
func whole(t *testing.T, conn *grpc.ClientConn, key, kind, body string) *procv3.ProcessingResponse {
	t.Helper()
	out := exchange(t, conn, key, requestHead(bufferedModes()),
		responseHead(false, ":status", "200", "content-type", kind), responseBody(body, true))
	return out[len(out)-1]
}

func TestProcessScans(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Value
	conn, _ := dial(t, settings(t, b, allOn()))
	for _, c := range []struct{ name, kind, body, want string }{
		{"clean", "text/plain", "hello", "="},
		{"flagged", "text/plain", "a " + doortest.Flagged, "="},
		{"empty", "text/plain", "", "="},
		{"text", "text/plain; charset=utf-8", "a " + doortest.Secret + " b", "a " + doortest.Mask + " b"},
		{"json", "application/json", `{"n": 1.50, "k":"` + doortest.Secret + `", "a":[1e400]}`,
			`{"n": 1.50, "k":"` + doortest.Mask + `", "a":[1e400]}`},
		{"no json after all", "application/json", `{"k":"` + doortest.Secret, `{"k":"` + doortest.Mask},
		{"no type", "", doortest.Secret, doortest.Mask},
		{"an image that may pass", "image/png", "\x89PNG\xff", "="},
		{"an image that is text", "image/png", doortest.Secret, doortest.Mask},
		{"an image that may not", "image/gif", "GIF\xff", "502"},
		{"denied", "text/plain", doortest.Forbidden, "403"},
		{"late scanner", "text/plain", doortest.Late, "403"},
		{"too long", "text/plain", strings.Repeat("x", int(b.Limits.ScanBody)), "413"},
	} {
		got := whole(t, conn, key, c.kind, c.body)
		common := got.GetResponseBody().GetResponse()
		changed := common.GetBodyMutation()
		switch {
		case c.want == "=":
			if got.GetResponseBody() == nil || changed != nil {
				t.Errorf("%s: %v", c.name, got)
			}
		case len(c.want) == 3:
			if fmtCode(got) != c.want {
				t.Errorf("%s: %v", c.name, got)
			}
		case string(changed.GetBody()) != c.want ||
			!slices.Contains(common.GetHeaderMutation().GetRemoveHeaders(), "content-length"):
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// fmtCode is the status of an immediate response.
func fmtCode(r *procv3.ProcessingResponse) string {
	if r.GetImmediateResponse() == nil {
		return "goes on"
	}
	n := int(r.GetImmediateResponse().GetStatus().GetCode())
	return string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
}

// The upstream is asked for what can be scanned, and not told of our headers.
func TestProcessRequestHeaders(t *testing.T) {
	b := doortest.New(t)
	conn, _ := dial(t, settings(t, b, allOn()))
	out := exchange(t, conn, b.Key("agent", "agent").Value, requestHead(bufferedModes(), "x-yett-defer-token", "x",
		"accept-encoding", "gzip"), responseHead(true, ":status", "204"))
	m := out[0].GetRequestHeaders().GetResponse().GetHeaderMutation()
	if set := m.GetSetHeaders(); len(set) != 1 || set[0].GetHeader().GetKey() != "accept-encoding" ||
		string(set[0].GetHeader().GetRawValue()) != "identity" ||
		set[0].GetAppendAction() != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
		t.Errorf("sets %v", set)
	}
	if !slices.Equal(m.GetRemoveHeaders(), []string{"x-yett-defer-token", "range", "if-range"}) {
		t.Errorf("removes %v", m.GetRemoveHeaders())
	}
	if out[1].GetResponseHeaders() == nil {
		t.Errorf("an answer without a body: %v", out[1])
	}
}

func TestProcessRefuses(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Value
	conn, _ := dial(t, settings(t, b, allOn()))
	mode := func(req, resp modev3.ProcessingMode_BodySendMode) *procv3.ProtocolConfiguration {
		return &procv3.ProtocolConfiguration{RequestBodyMode: req, ResponseBodyMode: resp}
	}
	const buffered = modev3.ProcessingMode_BUFFERED
	early := bufferedModes()
	early.SendBodyWithoutWaitingForHeaderResponse = true
	head := requestHead(bufferedModes())
	for name, in := range map[string][]*procv3.ProcessingRequest{
		"no modes":            {requestHead(nil)},
		"response NONE":       {requestHead(mode(0, modev3.ProcessingMode_NONE))},
		"response STREAMED":   {requestHead(mode(0, modev3.ProcessingMode_STREAMED))},
		"response partial":    {requestHead(mode(0, modev3.ProcessingMode_BUFFERED_PARTIAL))},
		"response duplex":     {requestHead(mode(0, modev3.ProcessingMode_FULL_DUPLEX_STREAMED))},
		"response GRPC":       {requestHead(mode(0, modev3.ProcessingMode_GRPC))},
		"response unknown":    {requestHead(mode(0, 99))},
		"request STREAMED":    {requestHead(mode(modev3.ProcessingMode_STREAMED, buffered))},
		"request partial":     {requestHead(mode(modev3.ProcessingMode_BUFFERED_PARTIAL, buffered))},
		"bodies before":       {requestHead(early)},
		"no request headers":  {{ProtocolConfig: bufferedModes(), Request: responseBody("x", true).Request}},
		"no response headers": {head, responseBody("x", true)},
		"nothing":             {head, {}},
		"headers twice":       {head, requestHead(nil)},
		"answers twice":       {head, responseHead(false, ":status", "200"), responseHead(false, ":status", "200")},
		"half a body":         {head, responseHead(false, ":status", "200"), responseBody("x", false)},
		"half a request": {requestHead(mode(buffered, buffered)), {Request: &procv3.ProcessingRequest_RequestBody{
			RequestBody: &procv3.HttpBody{Body: []byte("x")}}}},
		"compressed": {head, responseHead(false, ":status", "200", "content-encoding", "br")},
		"partial":    {head, responseHead(false, ":status", "206")},
		"a tunnel":   {head, responseHead(false, ":status", "101")},
		"long":       {head, responseHead(false, ":status", "200", "content-length", "999999999")},
		"no length":  {head, responseHead(false, ":status", "200", "content-length", "many")},
		"no host at all": {{ProtocolConfig: bufferedModes(), Request: &procv3.ProcessingRequest_RequestHeaders{
			RequestHeaders: &procv3.HttpHeaders{Headers: headerMap(":method", "GET")}}}},
	} {
		out := exchange(t, conn, key, in...)
		if last := out[len(out)-1]; len(out) != len(in) || last.GetImmediateResponse() == nil ||
			last.GetImmediateResponse().GetStatus().GetCode() < 400 {
			t.Errorf("%s: %v", name, out)
		}
	}
}

// A request's body and trailers go on: what an agent sends is for ext_authz.
func TestProcessRequestBody(t *testing.T) {
	b := doortest.New(t)
	conn, _ := dial(t, settings(t, b, allOn()))
	conf := &procv3.ProtocolConfiguration{RequestBodyMode: modev3.ProcessingMode_BUFFERED,
		ResponseBodyMode: modev3.ProcessingMode_BUFFERED}
	out := exchange(t, conn, b.Key("agent", "agent").Value, requestHead(conf),
		&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestBody{RequestBody: &procv3.HttpBody{
			Body: []byte("x"), EndOfStream: true}}},
		&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestTrailers{
			RequestTrailers: &procv3.HttpTrailers{}}},
		responseHead(false, ":status", "200"),
		&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseTrailers{
			ResponseTrailers: &procv3.HttpTrailers{}}})
	if out[1].GetRequestBody() == nil || out[2].GetRequestTrailers() == nil || out[4].GetResponseTrailers() == nil {
		t.Errorf("%v", out)
	}
}

// Nobody waits for what is said in observability mode: the stream fails, and is never quiet.
func TestProcessObserving(t *testing.T) {
	b := doortest.New(t)
	conn, _ := dial(t, settings(t, b, allOn()))
	stream, err := procv3.NewExternalProcessorClient(conn).Process(as(t, b.Key("agent", "agent").Value))
	if err != nil {
		t.Fatal(err)
	}
	m := requestHead(bufferedModes())
	m.ObservabilityMode = true
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestProcessFailsClosed(t *testing.T) {
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			b := doortest.New(t)
			conn, _ := dial(t, settings(t, b, allOn()))
			if got := whole(t, conn, f.make(t, b), "text/plain", "clean"); got.GetImmediateResponse() == nil {
				t.Errorf("%v", got)
			}
		})
	}
}

// A key may end while the upstream works.
func TestProcessKeyEnds(t *testing.T) {
	for name, ends := range map[string]func(b *doortest.Bench, k *ops.NewKey){
		"revoked": func(b *doortest.Bench, k *ops.NewKey) { b.Revoke(k) },
		"expired": func(b *doortest.Bench, _ *ops.NewKey) { b.Advance(2 * time.Hour) },
	} {
		b := doortest.New(t)
		k, err := b.Service.CreateKey(context.Background(), ops.KeySpec{Name: "agent", Preset: "agent",
			ExpiresAt: b.Now().Add(time.Hour)}, doortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		conn, _ := dial(t, settings(t, b, allOn()))
		stream, err := procv3.NewExternalProcessorClient(conn).Process(as(t, k.Value))
		if err != nil {
			t.Fatal(err)
		}
		var got *procv3.ProcessingResponse
		for i, m := range []*procv3.ProcessingRequest{requestHead(bufferedModes()), responseHead(false, ":status", "200"),
			responseBody("clean", true)} {
			if i == 2 {
				ends(b, k)
			}
			if err := stream.Send(m); err != nil {
				t.Fatal(err)
			}
			if got, err = stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		if got.GetImmediateResponse() == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
