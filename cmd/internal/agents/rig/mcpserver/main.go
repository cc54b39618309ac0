// Command mcpserver is an MCP server on stdio for tests with real agents: the tool say answers with the text of -text,
// the tool fail with the same text as an error. Both write the arguments' bytes to -log before they answer, so that a
// test sees which calls ran. It must never do anything else, and reads no environment.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

// request is a JSON-RPC request or notification.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Version   string          `json:"protocolVersion"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

type object = map[string]any

func main() {
	text := flag.String("text", "", "text of the tools' results")
	log := flag.String("log", "", "file to which the arguments of calls are appended")
	flag.Parse()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var r request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			fail(err)
		}
		if len(r.ID) == 0 {
			continue // a notification
		}
		answer := object{"jsonrpc": "2.0", "id": r.ID}
		if result, err := reply(&r, *text, *log); err != nil {
			answer["error"] = object{"code": -32601, "message": err.Error()}
		} else {
			answer["result"] = result
		}
		if err := out.Encode(answer); err != nil {
			fail(err)
		}
	}
	if err := in.Err(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mcpserver:", err)
	os.Exit(1)
}

func reply(r *request, text, log string) (object, error) {
	switch r.Method {
	case "initialize":
		return object{"protocolVersion": r.Params.Version, "capabilities": object{"tools": object{}},
			"serverInfo": object{"name": "yett-test", "version": "1.0.0"}}, nil
	case "ping":
		return object{}, nil
	case "tools/list":
		var tools []object
		for _, name := range []string{"say", "fail"} {
			tools = append(tools, object{"name": name, "description": "Tests the tools of MCP servers.",
				"inputSchema": object{"type": "object", "properties": object{"about": object{"type": "string"}}}})
		}
		return object{"tools": tools}, nil
	case "tools/call":
		if r.Params.Name != "say" && r.Params.Name != "fail" {
			return nil, fmt.Errorf("unknown tool %q: expected say or fail", r.Params.Name)
		}
		if err := record(log, fmt.Appendf(nil, "%s %s\n", r.Params.Name, r.Params.Arguments)); err != nil {
			return nil, err
		}
		return object{"content": []object{{"type": "text", "text": text}}, "isError": r.Params.Name == "fail"}, nil
	default:
		return nil, fmt.Errorf("unknown method %q", r.Method)
	}
}

func record(path string, line []byte) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
