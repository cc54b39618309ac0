package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit/doortest"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// extMCP holds the messages of ext_mcp.proto as agentgateway has them: there is no public Go module of it. Each line is
// a message and its fields in the order of their numbers from 1: name:type, where ? marks what may be absent and * a
// list. "-" leaves a number out.
var extMCP = describe(
	"McpRequest service_names:*string method:string metadata_context:bytes mcp_request:?bytes headers:*McpHeader "+
		"invocation_id:string",
	"McpResponse service_names:*string method:string metadata_context:bytes mcp_response:bytes invocation_id:string",
	"McpRequestResult pass:?Pass mutated:?bytes error:?AuthorizationError header_mutation:?HeaderMutation metadata:bytes",
	"McpResponseResult pass:?Pass mutated:?bytes error:?AuthorizationError",
	"HeaderMutation set:*McpHeader remove:*string",
	"McpHeader key:string value:bytes",
	"Pass",
	"AuthorizationError code:int32 reason:string mcp_error:?bytes")

// describe makes message types of such lines.
func describe(lines ...string) protoreflect.FileDescriptor {
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("ext_mcp.proto"), Syntax: proto.String("proto2"),
		Package: proto.String("agentgateway.dev.ext_mcp")}
	kinds := map[string]descriptorpb.FieldDescriptorProto_Type{"string": descriptorpb.FieldDescriptorProto_TYPE_STRING,
		"bytes": descriptorpb.FieldDescriptorProto_TYPE_BYTES, "int32": descriptorpb.FieldDescriptorProto_TYPE_INT32}
	for _, line := range lines {
		words := strings.Fields(line)
		m := &descriptorpb.DescriptorProto{Name: proto.String(words[0])}
		for i, w := range words[1:] {
			name, kind, _ := strings.Cut(w, ":")
			f := &descriptorpb.FieldDescriptorProto{Name: proto.String(name), Number: proto.Int32(int32(i + 1)),
				Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			if strings.HasPrefix(kind, "*") {
				f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			kind = strings.TrimLeft(kind, "*?")
			if t, ok := kinds[kind]; ok {
				f.Type = t.Enum()
			} else {
				f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
					proto.String(".agentgateway.dev.ext_mcp."+kind)
			}
			m.Field = append(m.Field, f)
		}
		file.MessageType = append(file.MessageType, m)
	}
	fd, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err)
	}
	return fd
}

// message is an empty one of that type.
func message(name string) *dynamicpb.Message {
	return dynamicpb.NewMessage(extMCP.Messages().ByName(protoreflect.Name(name)))
}

func set(m *dynamicpb.Message, field string, v any) {
	m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(field)), protoreflect.ValueOf(v))
}

func get(m protoreflect.Message, field string) (protoreflect.Value, bool) {
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(field))
	return m.Get(fd), m.Has(fd)
}

// mcp is a call for a server. params "" sends none; headers are name, value.
func mcp(kind, servers, method, body string, pairs ...string) *dynamicpb.Message {
	m := message(kind)
	fields := m.Descriptor().Fields()
	for _, s := range strings.Fields(servers) {
		m.Mutable(fields.ByName("service_names")).List().Append(protoreflect.ValueOfString(s))
	}
	set(m, "method", method)
	set(m, "invocation_id", "inv-1")
	if body != "" {
		set(m, map[string]string{"McpRequest": "mcp_request", "McpResponse": "mcp_response"}[kind], []byte(body))
	}
	for i := 0; i < len(pairs); i += 2 {
		h := message("McpHeader")
		set(h, "key", pairs[i])
		set(h, "value", []byte(pairs[i+1]))
		m.Mutable(fields.ByName("headers")).List().Append(protoreflect.ValueOfMessage(h))
	}
	return m
}

// verdict is what an answer says: "pass", the bytes that replace, or "error CODE" with the error of JSON-RPC.
func verdict(t *testing.T, conn *grpc.ClientConn, key string, in *dynamicpb.Message) (string, map[string]any) {
	t.Helper()
	call, answer := "CheckRequest", message("McpRequestResult")
	if in.Descriptor().Name() == "McpResponse" {
		call, answer = "CheckResponse", message("McpResponseResult")
	}
	if err := conn.Invoke(as(t, key), "/agentgateway.dev.ext_mcp.ExtMcp/"+call, in, answer); err != nil {
		t.Fatal(err)
	}
	if _, ok := get(answer, "pass"); ok {
		return "pass", nil
	}
	if v, ok := get(answer, "mutated"); ok {
		return string(v.Bytes()), nil
	}
	v, ok := get(answer, "error")
	if !ok {
		t.Fatalf("an answer without a result: %v", answer)
	}
	code, _ := get(v.Message(), "code")
	problem, _ := get(v.Message(), "mcp_error")
	var out map[string]any
	if err := json.Unmarshal(problem.Bytes(), &out); err != nil {
		t.Fatalf("%q: %v", problem.Bytes(), err)
	}
	return fmt.Sprintf("error %d", code.Int()), out
}

func TestMCPRequests(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Value
	conn, _ := dial(t, settings(t, b, allOn()))
	for _, c := range []struct{ name, servers, method, params, want string }{
		{"permit", "git", "tools/call", `{"name":"read","arguments":{"n":1.50}}`, "pass"},
		{"no arguments", "git", "tools/call", `{"name":"read"}`, "pass"},
		{"deny", "git", "tools/call", `{"name":"deny"}`, "error 1"},
		{"defer", "git", "tools/call", `{"name":"defer"}`, "error 1"},
		{"a rule that fails", "git", "tools/call", `{"name":"fails"}`, "error 1"},
		{"a resource", "git", "resources/read", `{"uri":"file:///x","_meta":{"id":1},"\"q":1.50}`, "pass"},
		{"a server's resource", "deny", "resources/read", `{"uri":"file:///x"}`, "error 1"},
		{"a prompt", "deny", "prompts/get", `{"name":"x"}`, "error 1"},
		{"a task", "deny", "tasks/result", `{"taskId":"x"}`, "error 1"},
		{"sampling", "deny", "sampling/createMessage", `{}`, "error 1"},
		{"ping", "git", "ping", "", "pass"},
		{"initialize", "git", "initialize", `{}`, "pass"},
		{"discover", "git", "server/discover", "", "pass"},
		{"a notification", "git", "notifications/progress", `{}`, "pass"},
		{"a list of two servers", "git web", "tools/list", "", "pass"},
		{"unknown method", "git", "tools/callNow", `{"name":"read"}`, "error 1"},
		{"no method", "git", "", `{"name":"read"}`, "error 1"},
		{"two servers", "git web", "tools/call", `{"name":"read"}`, "error 3"},
		{"no server", "", "tools/call", `{"name":"read"}`, "error 3"},
		{"a server with a slash", "git/x", "tools/call", `{"name":"read"}`, "error 3"},
		{"no params", "git", "tools/call", "", "error 1"},
		{"two names", "git", "tools/call", `{"name":"read","name":"deny"}`, "error 3"},
		{"no object", "git", "tools/call", `["read"]`, "error 1"},
		{"no JSON", "git", "tools/call", `{"name":`, "error 3"},
		{"older gateways", "git", "tools/call", "\n\x0c\n\x04name\x12\x04\x1a\x02rd", "error 3"},
		{"arguments that are a list", "git", "tools/call", `{"name":"read","arguments":[]}`, "error 1"},
		{"a tool that is a method", "git", "tools/call", `{"name":"resources/read"}`, "error 1"},
		{"a tool that is a list", "git", "tools/call", `{"name":"tools/list"}`, "error 1"},
		{"oversized", "git", "tools/call", `{"name":"` + strings.Repeat("x", int(b.Limits.AuthorizeBody)) + `"}`, "error 3"},
	} {
		got, why := verdict(t, conn, key, mcp("McpRequest", c.servers, c.method, c.params))
		if got != c.want {
			t.Errorf("%s: %s %v", c.name, got, why)
		}
		if got != "pass" && (why["code"] == nil || why["message"] == "" || why["data"] == nil) {
			t.Errorf("%s: %v", c.name, why)
		}
	}
	want := []string{`mcp.git/read {"n":1.5}`, `mcp.git/read `}
	if got := b.Calls()[:2]; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if resource := `mcp.git/resources/read {"\"q":1.5,"uri":"file:///x"}`; !slices.Contains(b.Calls(), resource) {
		t.Errorf("%q", b.Calls())
	}
}

// A call that waits says where it is approved; the same call runs once it is.
func TestMCPRedeems(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Value
	conn, _ := dial(t, settings(t, b, allOn()))
	call := mcp("McpRequest", "git", "tools/call", `{"name":"defer","arguments":{"n":1}}`)
	got, why := verdict(t, conn, key, call)
	text, _ := why["message"].(string)
	if got != "error 1" || why["code"] != -32001.0 || !strings.Contains(text, console+"/approvals/dec_") {
		t.Fatalf("%s %v", got, why)
	}
	b.AnswerPending(true)
	if got, why := verdict(t, conn, key, call); got != "pass" {
		t.Errorf("approved: %s %v", got, why)
	}
	if got, _ := verdict(t, conn, key, call); got == "pass" {
		t.Error("the approval is good for two")
	}
}

func TestMCPResponses(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Value
	conn, _ := dial(t, settings(t, b, allOn()))
	const keeps = `{"n": 12345678901234567890, "x":1e400 ,"content":[{"type":"text","text":"a SECRET"},{"type":"new"}],` +
		`"structuredContent":{"k":["SECRET"]}}`
	with := func(word string) string { return strings.ReplaceAll(keeps, "SECRET", word) }
	for _, c := range []struct{ name, servers, method, result, want string }{
		{"clean", "git", "tools/call", with("word"), "pass"},
		{"redacted", "git", "tools/call", with(doortest.Secret), with(doortest.Mask)},
		{"denied", "git", "tools/call", with(doortest.Forbidden), "error 1"},
		{"late scanner", "git", "tools/call", with(doortest.Late), "error 1"},
		{"a list of two servers", "git web", "tools/list", `{"tools":[{"description":"` + doortest.Secret + `"}]}`,
			`{"tools":[{"description":"` + doortest.Mask + `"}]}`},
		{"a task", "git", "tasks/result", with(doortest.Secret), with(doortest.Mask)},
		{"unknown method", "git", "x/y", with(doortest.Secret), with(doortest.Mask)},
		{"nothing", "git", "tools/call", "", "error 3"},
		{"no JSON", "git", "tools/call", "{", "error 3"},
		{"two members", "git", "tools/call", `{"a":1,"a":2}`, "error 3"},
		{"no method", "git", "", `{}`, "error 3"},
		{"oversized", "git", "tools/call", `{"a":"` + strings.Repeat("x", int(b.Limits.ScanBody)) + `"}`, "error 3"},
	} {
		if got, why := verdict(t, conn, key, mcp("McpResponse", c.servers, c.method, c.result)); got != c.want {
			t.Errorf("%s: %.300s %v", c.name, got, why)
		}
	}
}

func TestMCPFailsClosed(t *testing.T) {
	for _, f := range append([]failure{killed}, failures...) {
		t.Run(f.name, func(t *testing.T) {
			b := doortest.New(t)
			conn, _ := dial(t, settings(t, b, allOn()))
			key := f.make(t, b)
			if got, _ := verdict(t, conn, key, mcp("McpRequest", "git", "tools/call", `{"name":"read"}`)); got == "pass" {
				t.Error("a call passes")
			}
			if f.name == killed.name {
				return // a kill stops calls; what one has said before may be read
			}
			if got, _ := verdict(t, conn, key, mcp("McpResponse", "git", "tools/call", `{}`)); got == "pass" {
				t.Error("a result passes")
			}
		})
	}
}

// agentgateway may bring the key in metadata_context.
func TestMCPKeyInside(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Value
	conn, _ := dial(t, settings(t, b, allOn()))
	for value, want := range map[string]string{"Bearer " + key: "pass", "Bearer x": "error 1", key: "error 1"} {
		meta, err := structpb.NewStruct(map[string]any{"tenant": "acme", "yett_authorization": value})
		if err != nil {
			t.Fatal(err)
		}
		packed, err := proto.Marshal(meta)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"McpRequest", "McpResponse"} {
			m := mcp(kind, "git", "tools/call", `{"name":"read"}`)
			set(m, "metadata_context", packed)
			if got, why := verdict(t, conn, "", m); got != want {
				t.Errorf("%s %.8s: %s %v", kind, value, got, why)
			}
			// what is in the metadata counts alone
			if got, _ := verdict(t, conn, "wrong", m); got == "pass" {
				t.Errorf("%s: a wrong key passes", kind)
			}
		}
	}
}

// A header may name the agent.
func TestMCPAgents(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Value
	conn, _ := dial(t, settings(t, b, allOn()))
	if _, err := b.Service.Kill(context.Background(), doortest.Operator, kill("robot")); err != nil {
		t.Fatal(err)
	}
	for agent, want := range map[string]string{"robot": "error 1", "other": "pass"} {
		if got, why := verdict(t, conn, key, mcp("McpRequest", "git", "tools/call", `{"name":"read"}`, "X-Agent-Id",
			agent)); got != want {
			t.Errorf("%s: %s %v", agent, got, why)
		}
	}
}
