package mcptest

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// TestSDKs runs the public SDKs' clients against the raw server, over HTTP with a header and over stdio.
func TestSDKs(t *testing.T) {
	EachSDK(t, func(t *testing.T, s SDK, legacy bool) {
		installed(t, "YETT_SDKS", s.Name)
		t.Run("http", func(t *testing.T) {
			server, url := ServeRaw(t, rawmcp.Options{Key: "a-key", Modes: []string{"pages"}})
			header := map[string]string{"Authorization": "Bearer a-key"}
			useSDK(t, s, Ask{URL: url, Header: header, Legacy: legacy}, server.Records)
		})
		t.Run("stdio", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "records")
			useSDK(t, s, Ask{Command: []string{RawProgram(t), "-mode", "pages", "-record", file}, Legacy: legacy},
				func() []rawmcp.Record {
					records, err := rawmcp.ReadRecords(file)
					if err != nil {
						t.Fatal(err)
					}
					return records
				})
		})
	})
}

func useSDK(t *testing.T, s SDK, ask Ask, records func() []rawmcp.Record) {
	t.Helper()
	ask.Calls = []SDKCall{
		{Name: "echo", Arguments: json.RawMessage(`{"a":"é"}`)},
		{Name: "fail"},
		{Name: "rpc-error"},
		{Name: "progress"},
		{Name: "elicit"},
		{Name: "slow", Cancel: true},
		{Name: "counter"},
		{Name: "elicit-url"},
		{Name: "url-needed"},
	}
	ask.Change = "change"
	saw := s.Use(t, ask)
	version := rawmcp.Modern
	if ask.Legacy {
		version = rawmcp.Legacy
	}
	if s.Name == "node1" && saw.Version == "" {
		saw.Version = version // it cannot tell on stdio
	}
	if saw.Server != "yett-raw" || saw.Version != version {
		t.Errorf("server %q, version %q, want %s", saw.Server, saw.Version, version)
	}
	if !slices.Equal(saw.Tools, rawmcp.ToolNames()) {
		t.Errorf("tools %q", saw.Tools)
	}
	if len(saw.Answers) != len(ask.Calls) {
		t.Fatalf("%d answers: %+v", len(saw.Answers), saw)
	}
	echo, failed, wrong, slow, counter := saw.Answers[0], saw.Answers[1], saw.Answers[2], saw.Answers[5], saw.Answers[6]
	var args struct{ A string }
	if err := json.Unmarshal([]byte(echo.Text), &args); err != nil || args.A != "é" || echo.IsError || echo.Thrown {
		t.Errorf("echo: %+v", echo)
	}
	if !failed.IsError || failed.Text != "it failed" {
		t.Errorf("fail: %+v", failed)
	}
	if !wrong.Thrown || wrong.Code != -32099 {
		t.Errorf("rpc-error: %+v", wrong)
	}
	if saw.Progress == 0 { // some SDKs drop what comes together with an answer
		t.Error("no progress was told")
	}
	if !slices.Equal(saw.Elicited, []string{"Which colour?", "http://127.0.0.1/sign-in"}) {
		t.Errorf("elicited %q", saw.Elicited)
	}
	if !slow.Thrown || counter.Text != "1" {
		t.Errorf("slow: %+v, then counter: %+v", slow, counter)
	}
	if needed := saw.Answers[8]; !needed.Thrown || needed.Code != -32042 {
		t.Errorf("url-needed: %+v", needed)
	}
	if saw.Changes == 0 {
		t.Error("no list change was seen")
	}
	if err := WaitRecord(t.Context(), records, func(r rawmcp.Record) bool {
		return GivenUp(r) && bytes.Contains(r.Body, []byte(`"slow"`))
	}); err != nil {
		t.Errorf("the cancelled call: %v", err)
	}
}
