package conform

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// counting is the fake with integers among its settings, which it reads as encoding/json does unless it is lenient.
type counting struct {
	Session
	lenient bool
}

func (c counting) Conn() grpc.ClientConnInterface {
	return countingConn{c.Session.Conn(), c.lenient}
}

type countingConn struct {
	grpc.ClientConnInterface
	lenient bool
}

func (c countingConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if in, ok := args.(*pluginv1.ConfigureRequest); ok {
		var members map[string]json.RawMessage
		if json.Unmarshal(in.Config, &members) == nil && members["most"] != nil {
			var most []int
			if err := json.Unmarshal(members["most"], &most); err != nil && !c.lenient {
				proto.Merge(reply.(proto.Message), &pluginv1.ConfigureResponse{Problems: []*pluginv1.Problem{{Field: "/most",
					Message: err.Error()}}})
				return nil
			}
			delete(members, "most")
			text, err := json.Marshal(members)
			if err != nil {
				return err
			}
			in = proto.CloneOf(in)
			in.Config, args = text, in
		}
	}
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if out, ok := reply.(*pluginv1.InfoResponse); ok && err == nil {
		out.ConfigSchema = `{"type":"object","additionalProperties":false,"properties":{"deny":{"type":"string"},"most":{"type":"array","items":{"type":"integer"}}}}`
		out.ExampleConfig = `{"deny":"conform-unknown","most":[100]}`
	}
	return err
}

// TestIntegers wants a plugin found that refuses what its own schema takes.
func TestIntegers(t *testing.T) {
	for _, lenient := range []bool{true, false} {
		open := opener(t, "")
		rep, err := Run(context.Background(), Options{CheckConfig: schemaCheck,
			Open: func(ctx context.Context) (Session, error) {
				s, err := open(ctx)
				return counting{s, lenient}, err
			}})
		if err != nil {
			t.Fatal(err)
		}
		got := find(t, rep, "integers")
		if rep.Pass != lenient || lenient == (got.Outcome == Fail) ||
			!lenient && !strings.Contains(got.Why, "/most: json: cannot unmarshal number 100.0") {
			t.Errorf("lenient %t: %+v\n%s", lenient, got, lines(rep))
		}
	}
}

func TestRespelt(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"b":[-2,{"c":1.5,"d":1e3,"e":"7"}],"f":null}`: `{"a":1.0,"b":[-2.0,{"c":1.5,"d":1e3,"e":"7"}],"f":null}`,
		`{}`: `{}`, `{"big":12345678901234567890123}`: `{"big":12345678901234567890123.0}`, `{`: ``,
	} {
		if got, _ := respelt([]byte(in)); string(got) != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
