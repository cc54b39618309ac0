package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/yett-dev/yett/sdk/client"
	"github.com/yett-dev/yett/sdk/wire"
)

// gateway stands in for a running Yett: reads are permitted, refunds wait for a person, who lowers the amount.
func gateway() *httptest.Server {
	answer := func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			ToolID string `json:"tool_id"`
			CallID string `json:"call_id"`
			Token  string `json:"defer_token"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			panic(err)
		}
		effect, code := "PERMIT", "RULE_PERMIT"
		switch {
		case r.URL.Path == "/v1/defer/status":
			answer(w, `{"status":"approved","token":"dfr_1","defer_token":"dfr_1","modified_args":{"amount":50},"expires_at":"2030-01-01T00:00:00Z","approvals":1,"approvals_required":1}`)
			return
		case in.Token != "":
			code = "APPROVAL_CONSUMED"
		case in.ToolID == "payments/refund":
			effect, code = "DEFER", "RULE_DEFER"
		}
		d := wire.AuthorizeResponse{Effect: effect, ReasonCode: code, DecisionID: "dec_1", CallID: in.CallID,
			PolicyVersion: "p1"}
		if effect == "DEFER" {
			d.DeferToken = "dfr_1"
		}
		answer(w, string(d.AppendJSON(nil)))
	}))
}

// An agent asks before it acts.
func ExampleClient_Authorize() {
	server := gateway()
	defer server.Close()
	c, err := client.New(client.Options{URL: server.URL, Key: "agent-key"}) // or YETT_URL and YETT_API_KEY
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d, err := c.Authorize(ctx, client.Call{AgentID: "demo", ToolID: "files/read",
		Args: map[string]any{"path": "README.md"}})
	switch {
	case errors.Is(err, client.ErrUnauthenticated):
		fmt.Println("check the key:", err)
	case err != nil:
		fmt.Println("no decision, so the call does not run:", err)
	case d.Permitted():
		fmt.Println("run it:", d.ReasonCode)
	default:
		fmt.Println("do not run it:", d.ReasonCode, d.Message)
	}
	// Output: run it: RULE_PERMIT
}

// A call that a person has to look at is waited for, and run with the arguments that the person approved.
func ExampleClient_AuthorizeAndWait() {
	server := gateway()
	defer server.Close()
	c, err := client.New(client.Options{URL: server.URL, Key: "agent-key"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	d, args, err := c.AuthorizeAndWait(ctx, client.Call{AgentID: "demo", ToolID: "payments/refund",
		Args: map[string]any{"amount": 120}})
	if err != nil {
		fmt.Println("no decision, so the call does not run:", err)
		return
	}
	if d.Permitted() {
		fmt.Printf("run it with %s\n", args)
	}
	// Output: run it with {"amount":50}
}
