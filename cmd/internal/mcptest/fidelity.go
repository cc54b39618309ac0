package mcptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// Probe is one request to a raw server whose answer must be the same bytes through a gateway that permits it.
type Probe struct {
	Name    string
	Request []byte
}

// arguments that a gateway must neither read as doubles nor write anew.
const arguments = `{"n":12345678901234567890,"f":0.10 ,"e":1E+2,"a":"\u00e9","b":"é","c":"e\u0301","":null, "x":{"y":[1e2,-0.0]}}`

// Probes are the requests of an era whose answers a gateway has no reason to change.
func Probes(era string) []Probe {
	var all []Probe
	id := 100
	add := func(name string, request func(id string) []byte) {
		id++
		all = append(all, Probe{name, request(fmt.Sprint(id))})
	}
	call := func(tool, arguments string) {
		add(tool, func(id string) []byte { return Call(era, id, tool, arguments) })
	}
	method := func(method, members string) {
		add(method+" "+members, func(id string) []byte { return Request(era, id, method, members) })
	}
	for _, tool := range rawmcp.Harmless() {
		switch tool {
		case "region":
			call(tool, `{"region":"eu-wést"}`)
		case "echo":
			call(tool, arguments)
			call(tool, ``)
			call(tool, `{"n":1e400}`)
			add("echo with an id of text", func(string) []byte { return Call(era, `"id \u00e9 / 1.0"`, tool, arguments) })
			add("echo with a large id", func(string) []byte { return Call(era, `9007199254740993`, tool, arguments) })
			add("echo with unknown members", func(id string) []byte {
				return RequestAs(era, Capabilities, id, "tools/call",
					`"x-vendor":[0.10,1e400],"name":"echo","arguments":`+arguments, `"vendor.example/n":12345678901234567890`)
			})
		default:
			call(tool, `{}`)
		}
	}
	for _, uri := range []string{"raw://text", "raw://blob", "raw://nothing"} {
		method("resources/read", fmt.Sprintf(`"uri":%q`, uri))
	}
	method("prompts/get", `"name":"greet","arguments":{"who":"you"}`)
	method("completion/complete", `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"a"}`)
	if era != rawmcp.Modern {
		method("ping", "")
		method("logging/setLevel", `"level":"debug"`)
	}
	return all
}

// Lists are the requests of lists, which a gateway filters and marks as private.
func Lists(era string) []Probe {
	var all []Probe
	for i, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
		all = append(all, Probe{method, Request(era, fmt.Sprint(200+i), method, "")})
	}
	return all
}

// probeWithin is how long one probe may take on a busy machine.
const probeWithin = 30 * time.Second

// CompareProbes opens both connections, sends each probe over both and demands the same bytes of every message.
func CompareProbes(t testing.TB, probes []Probe, direct, through Conn) {
	t.Helper()
	for _, problem := range Differences(t.Context(), probes, direct, through) {
		t.Error(problem)
	}
}

// Differences says which answers differ, one text for each probe.
func Differences(ctx context.Context, probes []Probe, direct, through Conn) (problems []string) {
	for name, conn := range map[string]Conn{"direct": direct, "through": through} {
		if _, err := conn.Open(ctx); err != nil {
			return []string{fmt.Sprintf("cannot open the connection %s: %v", name, err)}
		}
	}
	for _, p := range probes {
		want, err := do(ctx, direct, p.Request)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: direct: %v", p.Name, err))
			continue
		}
		got, err := do(ctx, through, p.Request)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: through: %v", p.Name, err))
			continue
		}
		if d := Difference(want, got); d != "" {
			problems = append(problems, p.Name+": "+d)
		}
	}
	return problems
}

func do(ctx context.Context, c Conn, request []byte) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	return c.Do(ctx, request)
}

// Arrived says which of the probes' requests did not arrive at the server as the bytes that were sent, where both
// directions pass a gateway.
func Arrived(probes []Probe, records []rawmcp.Record) (problems []string) {
	came := map[string]bool{}
	for _, r := range records {
		if r.Event == "" {
			came[string(r.Body)] = true
		}
	}
	for _, p := range probes {
		if !came[string(p.Request)] {
			problems = append(problems, fmt.Sprintf("%s: these bytes did not arrive: %s", p.Name, p.Request))
		}
	}
	return problems
}

// Lost says whether an error of Do means that the connection ended without an answer.
func Lost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || reset(err)
}

// reset is how a connection ends that a process's death or a handler's abort ends.
func reset(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "connection reset") || strings.Contains(err.Error(), "EOF"))
}
