// Command refund is an agent in miniature: it wants to read an order, refund it and clean up after itself. Before each
// call it asks Yett, it waits where a person has to decide, and what a tool puts out goes through Yett before the agent
// looks at it. It uses HTTP and JSON of the standard library and nothing else, so that any language can do the same.
// Whatever goes wrong on the way counts as no.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	gate := &Gate{URL: os.Getenv("YETT_URL"), Key: os.Getenv("YETT_API_KEY"), Agent: "refund-demo", Log: os.Stdout}
	if gate.URL == "" || gate.Key == "" {
		fmt.Fprintln(os.Stderr, "set YETT_URL and YETT_API_KEY: yett dev prints both")
		os.Exit(2)
	}
	if err := work(ctx, gate, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "refund:", err)
		os.Exit(1)
	}
}

// work is what the agent does. Being told no is not a failure: it goes on without that call.
func work(ctx context.Context, gate *Gate, out io.Writer) error {
	calls := []struct {
		tool string
		args map[string]any
		run  func() string // the tool itself
	}{
		{"orders/read", map[string]any{"order": "A-17"}, func() string {
			return "order A-17: 120.50 EUR, paid. export GITHUB_TOKEN=gh" + "p_" + "x7Kq2mV9tR4wZ1nB8cY5" + "dL3fH6jP0sGaT2uE"
		}},
		{"payments/refund", map[string]any{"order": "A-17", "amount": json.Number("120.50")}, func() string { return "refunded 120.50 EUR" }},
		{"shell/run", map[string]any{"command": "rm -rf /var/log"}, func() string { return "this line is never printed" }},
	}
	for _, c := range calls {
		text, err := gate.Call(ctx, c.tool, c.args, c.run)
		var no *Refused
		switch {
		case errors.As(err, &no):
			fmt.Fprintf(out, "%s: not done: %v\n", c.tool, no)
		case err != nil:
			return err
		default:
			fmt.Fprintf(out, "%s: %s\n", c.tool, text)
		}
	}
	return nil
}

// Gate puts Yett in front of tools. Safe for concurrent use.
type Gate struct {
	URL   string // of the gateway, such as http://127.0.0.1:8420
	Key   string // an API key with the scopes authorize and scan
	Agent string
	Log   io.Writer // told when the agent waits for a person
}

// Refused says that a call may not be made.
type Refused struct{ Code, Message string }

// Error gives the code and the text that a model may see.
func (r *Refused) Error() string { return r.Code + ": " + r.Message }

// verdict is what the agent needs of an answer of /v1/authorize.
type verdict struct {
	Effect     string `json:"effect"`
	ReasonCode string `json:"reason_code"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`
	Token      string `json:"defer_token"`
	Repeat     bool   `json:"repeat"`
}

// Call asks whether the tool may run, waits for a person where one has to say so, runs it, and gives back its output as
// Yett lets it through. A refusal is a *Refused; any other error means that nothing was permitted.
func (g *Gate) Call(ctx context.Context, tool string, args map[string]any, run func() string) (string, error) {
	ask := map[string]any{"agent_id": g.Agent, "tool_id": tool, "args": args}
	v, err := g.authorize(ctx, ask)
	if err != nil {
		return "", err
	}
	if v.Effect == "DEFER" {
		fmt.Fprintf(g.Log, "%s: waits for approval of %s\n", tool, v.Token)
		if err := g.wait(ctx, v.Token); err != nil {
			return "", err
		}
		ask["defer_token"] = v.Token
		if v, err = g.authorize(ctx, ask); err != nil { // the same call again: the approval is good for it, once
			return "", err
		}
	}
	if v.Effect != "PERMIT" {
		return "", &Refused{v.ReasonCode, first(v.Message, v.Reason)}
	}
	if v.Repeat { // the answer of an earlier request: the tool may have run on that one
		return "", &Refused{"REPEAT", "this call was permitted before and is not run again"}
	}
	return g.scan(ctx, tool, run())
}

func (g *Gate) authorize(ctx context.Context, ask map[string]any) (v verdict, err error) {
	return v, g.post(ctx, "/v1/authorize", ask, &v)
}

// wait long-polls until the defer is decided.
func (g *Gate) wait(ctx context.Context, token string) error {
	for {
		var s struct{ Status, Reason string }
		if err := g.post(ctx, "/v1/defer/status", map[string]any{"defer_token": token, "wait_seconds": 30}, &s); err != nil {
			return err
		}
		switch s.Status {
		case "approved":
			return nil
		case "pending":
		default:
			return &Refused{"APPROVAL_" + s.Status, first(s.Reason, "nobody approved the call")}
		}
	}
}

// scan gives the output as it may be seen.
func (g *Gate) scan(ctx context.Context, tool, output string) (string, error) {
	var s struct {
		Outcome    string `json:"outcome"`
		ReasonCode string `json:"reason_code"`
		Sanitized  string `json:"sanitized_output"`
	}
	if err := g.post(ctx, "/v1/scan_output", map[string]any{"agent_id": g.Agent, "tool_id": tool, "output": output},
		&s); err != nil {
		return "", err
	}
	switch s.Outcome {
	case "PASS", "WARNED", "REDACTED":
		return s.Sanitized, nil
	}
	return "", &Refused{s.ReasonCode, "the output is withheld"}
}

// client waits longer than the longest long poll.
var client = &http.Client{Timeout: 90 * time.Second}

// post sends one request. Anything but 200 with JSON in it is an error, and with an error nothing is permitted.
func (g *Gate) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+g.Key)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var problem struct{ Code, Detail string }
		if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&problem); err != nil {
			return fmt.Errorf("%s: status %d", path, resp.StatusCode)
		}
		return fmt.Errorf("%s: %s: %s", path, problem.Code, problem.Detail)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
