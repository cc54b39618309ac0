package mesh

import (
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Counts says how many connections a server has, and how many of them have shown a key.
func Counts(s *Server) (open, known int) {
	open, strangers, _, _ := s.door.Counts()
	return open, open - strangers
}

// What somebody forgets to fill in is a refusal.
func TestZeroRefuses(t *testing.T) {
	var check authv3.CheckResponse
	if err := proto.Unmarshal(new(checked).encode(), &check); err != nil || check.GetStatus().GetCode() != rpcDenied ||
		check.GetDeniedResponse().GetStatus().GetCode() != 403 {
		t.Errorf("%v, %v", &check, err)
	}
	var proc procv3.ProcessingResponse
	if err := proto.Unmarshal(new(processed).encode(), &proc); err != nil ||
		proc.GetImmediateResponse().GetStatus().GetCode() != 403 {
		t.Errorf("%v, %v", &proc, err)
	}
	if f, _, _ := protowire.ConsumeTag(new(mcpResult).encode()); f != 3 {
		t.Errorf("the result of MCP is field %d", f)
	}
	for _, status := range []int{0, 200, 302, 600} {
		check.Reset()
		if err := proto.Unmarshal((&checked{status: status}).encode(), &check); err != nil ||
			check.GetDeniedResponse().GetStatus().GetCode() != 403 {
			t.Errorf("%d: %v, %v", status, &check, err)
		}
	}
}

// A message means here what it means to the public packages, or is refused.
func FuzzCheckRequest(f *testing.F) {
	seed, err := proto.Marshal(&authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Host: "a",
			Path: "/", Headers: map[string]string{"x": "y"}, Body: "b"}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseCheck(b)
		if err != nil {
			return
		}
		var want authv3.CheckRequest
		if proto.Unmarshal(b, &want) != nil {
			return // a field that does not matter here is wrong
		}
		http := want.GetAttributes().GetRequest().GetHttp()
		if got.method != http.GetMethod() || got.host != http.GetHost() || got.path != http.GetPath() {
			t.Errorf("%+v, want %v", got, http)
		}
	})
}

func FuzzProcessingRequest(f *testing.F) {
	seed, err := proto.Marshal(&procv3.ProcessingRequest{
		ProtocolConfig: &procv3.ProtocolConfiguration{ResponseBodyMode: 2},
		Request: &procv3.ProcessingRequest_ResponseBody{ResponseBody: &procv3.HttpBody{Body: []byte("x"),
			EndOfStream: true}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte("\x5a\x00\x30\x30")) // the field of the trailers, but a number
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseProcessing(b)
		if err != nil {
			return
		}
		var want procv3.ProcessingRequest
		if proto.Unmarshal(b, &want) != nil {
			return
		}
		if got.phase == responseBody && (string(got.body) != string(want.GetResponseBody().GetBody()) ||
			got.end != want.GetResponseBody().GetEndOfStream()) {
			t.Errorf("%+v, want %v", got, &want)
		}
		if got.configured != (want.ProtocolConfig != nil) || got.observing != want.GetObservabilityMode() {
			t.Errorf("%+v, want %v", got, &want)
		}
	})
}

// FuzzMCP looks for a message that is not refused well.
func FuzzMCP(f *testing.F) {
	f.Add([]byte("\x0a\x03git\x12\x0atools/call\x22\x02{}"), true)
	f.Fuzz(func(t *testing.T, b []byte, request bool) {
		if m, err := parseMCP(b, request); err == nil && m == nil {
			t.Error("no message and no error")
		}
	})
}
