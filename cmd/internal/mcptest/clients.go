package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// SDK is one client made of a public SDK, unmodified, in testdata. Its versions stand there, pinned.
type SDK struct {
	Name   string // folder in testdata and in YETT_SDKS
	Modern bool   // it speaks the newer era too, unless Ask.Legacy
}

// SDKs are all of them. A test runs those of the second generation in both eras.
var SDKs = []SDK{{"node1", false}, {"node2", true}, {"python1", false}, {"python2", true}}

// Ask is what a client shall do: connect by URL or Command, list the tools of all pages, call, and see a list change.
type Ask struct {
	URL     string            `json:"url,omitempty"`
	Header  map[string]string `json:"header,omitempty"`
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`    // of the command, beside this process's own
	Legacy  bool              `json:"legacy,omitempty"` // begin with initialize
	Plain   bool              `json:"plain,omitempty"`  // it can neither ask its user nor show a page
	Calls   []SDKCall         `json:"calls,omitempty"`
	Change  string            `json:"change,omitempty"` // tool that changes the list; the client waits for the news
}

// SDKCall is a tools/call.
type SDKCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Cancel    bool            `json:"cancel,omitempty"` // when it tells of its first progress
}

// Saw is what a client saw.
type Saw struct {
	Server   string      `json:"server"`
	Version  string      `json:"version"` // of the protocol
	Tools    []string    `json:"tools"`
	Answers  []SDKAnswer `json:"answers"`
	Progress int         `json:"progress"`
	Elicited []string    `json:"elicited"` // the URL or the message of each; the client accepts them
	Changes  int         `json:"changes"`
}

// SDKAnswer is what a call came to for the client's author: a result, or an error that was thrown.
type SDKAnswer struct {
	Name    string `json:"name"`
	IsError bool   `json:"isError"`
	Thrown  bool   `json:"thrown"`
	Code    int    `json:"code"` // of a JSON-RPC error; 0 if it is none
	Text    string `json:"text"`
}

// clientWithin is how long a client may take: most of it is the start of its interpreter.
const clientWithin = time.Minute

// Use runs the client. It skips the test unless YETT_SDKS is set, and fails it if the client fails.
func (s SDK) Use(t testing.TB, ask Ask) Saw {
	t.Helper()
	dir := installed(t, "YETT_SDKS", s.Name)
	raw, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	_, here, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(here), "testdata", s.Name, "client.")
	argv := []string{filepath.Join(dir, s.Name, "bin", "python"), script + "py"}
	if strings.HasPrefix(s.Name, "node") {
		argv = []string{node(dir), script + "mjs"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second // a server that it started may hold its output
	cmd.Env = append(cmd.Environ(), "YETT_SDK_ASK="+string(raw), "YETT_SDK_MODULES="+filepath.Join(dir, s.Name),
		"PYTHONDONTWRITEBYTECODE=1")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", s.Name, err, out.Bytes(), said.Bytes())
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	var saw Saw
	if err := json.Unmarshal(lines[len(lines)-1], &saw); err != nil {
		t.Fatalf("%s printed no JSON: %v\n%s%s", s.Name, err, out.Bytes(), said.Bytes())
	}
	return saw
}

// EachSDK runs a test with each client in each era that it speaks.
func EachSDK(t *testing.T, run func(t *testing.T, s SDK, legacy bool)) {
	for _, s := range SDKs {
		if s.Modern {
			t.Run(s.Name+" "+rawmcp.Modern, func(t *testing.T) { run(t, s, false) })
		}
		t.Run(s.Name+" "+rawmcp.Legacy, func(t *testing.T) { run(t, s, true) })
	}
}
