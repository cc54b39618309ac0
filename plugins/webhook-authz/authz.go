package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

// headerDeadline says how many milliseconds the service has.
const headerDeadline = "Yett-Deadline-Ms"

// asker is the authorizer.
type asker struct {
	clock   signedhttp.Clock
	newID   func() string
	running atomic.Pointer[service]
}

// service is what Configure makes of the settings. It does not change.
type service struct {
	settings
	client *signedhttp.Client
	demo   *signedhttp.Demo
	header http.Header
}

func newAsker() *asker {
	return &asker{clock: signedhttp.SystemClock(), newID: func() string {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		return "chk_" + hex.EncodeToString(b[:])
	}}
}

func newPlugin() plugin.Authorizer {
	a := newAsker()
	return plugin.Authorizer{
		Info: plugin.Info{
			Name: "webhook-authz", Version: "1.0.0", Description: "asks an HTTP service about each call, with signed requests",
			ConfigSchema: schema, ExampleConfig: `{"demo": true}`,
			Secrets: []plugin.Secret{
				{Name: signedhttp.SecretSigning, Description: "whsec_… that signs requests; required unless unsigned or demo is set"},
				{Name: signedhttp.SecretSigningOther, Description: "whsec_… that signs too, while the service changes from one to the other"},
				{Name: secretAnswer, Description: "whsec_… that answers must be signed with"},
				{Name: secretAnswerOther, Description: "whsec_… that answers may be signed with instead, while the service changes"},
				{Name: signedhttp.SecretAuthorization, Description: "value of the Authorization header, if the service wants one"},
			},
			// What an answer with a ttl depends on is the service's affair, so it is taken to depend on everything.
			CacheKeyFields: []string{"key_id", "key_name", "agent_id", "session_id", "tool_id", "operation", "args", "context"},
		},
		Validate:  func(_ context.Context, in plugin.Settings) error { _, err := read(in); return err },
		Configure: func(_ context.Context, in plugin.Settings) error { return a.configure(in) },
		Check:     a.check,
		Close:     a.close,
	}
}

// demoAnswer is what the service inside the plugin says to everything. It must never be a permit.
const demoAnswer = `{"effect":"ABSTAIN"}`

func (a *asker) configure(in plugin.Settings) error {
	set, err := read(in)
	if err != nil {
		return err
	}
	s := &service{settings: set, header: http.Header{"Accept": {"application/json"}}}
	if set.demo {
		if s.demo, err = signedhttp.StartDemo(demoAnswer); err != nil {
			return err
		}
		s.endpoint.URL = s.demo.URL
	}
	if s.client, err = s.endpoint.New(set.connections, maxAnswer); err != nil {
		return plugin.Problem{Field: "/tls", Message: err.Error()}
	}
	if set.authorization != "" {
		s.header.Set("Authorization", set.authorization)
	}
	a.running.Store(s)
	return nil
}

// question is the body of a request. Args and context are as the agent sent them.
type question struct {
	Type      string       `json:"type"`
	Timestamp string       `json:"timestamp"`
	Data      questionData `json:"data"`
}

type questionData struct {
	KeyID      string          `json:"key_id"`
	KeyName    string          `json:"key_name"`
	AgentID    string          `json:"agent_id"`
	SessionID  string          `json:"session_id"`
	ToolID     string          `json:"tool_id"`
	Operation  string          `json:"operation,omitempty"`
	CallID     string          `json:"call_id"`
	Args       json.RawMessage `json:"args,omitempty"`
	Context    json.RawMessage `json:"context,omitempty"`
	Digest     string          `json:"digest"`
	Generation string          `json:"generation"`
}

func body(c *plugin.Call) ([]byte, error) {
	q := question{"yett.check", c.Time.UTC().Format(time.RFC3339Nano), questionData{
		c.KeyID, c.KeyName, c.AgentID, c.SessionID, c.ToolID, c.Operation, c.CallID, c.Args, c.Context,
		hex.EncodeToString(c.Digest[:]), c.Generation}}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(q); err != nil {
		return nil, fmt.Errorf("write the question: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// check asks once. Any error is the host's to turn into what its operator wrote.
func (a *asker) check(ctx context.Context, c *plugin.Call) (sdk.Verdict, error) {
	s := a.running.Load()
	if s == nil {
		return sdk.Verdict{}, errors.New("the plugin is not configured, or is closed")
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	text, err := body(c)
	if err != nil {
		return sdk.Verdict{}, err
	}
	m := signedhttp.Message{ID: a.newID(), Body: text, Header: s.header.Clone(), Secrets: s.secrets, Replays: true}
	if at, ok := ctx.Deadline(); ok {
		left := at.Sub(a.clock.Now()).Milliseconds()
		if left < 1 {
			return sdk.Verdict{}, context.DeadlineExceeded
		}
		m.Header.Set(headerDeadline, strconv.FormatInt(left, 10))
	}
	answer, err := s.client.Post(ctx, a.clock.Now(), m)
	if err != nil {
		return sdk.Verdict{}, err
	}
	if err := s.trust(answer, m.ID, a.clock.Now()); err != nil {
		return sdk.Verdict{}, err
	}
	v, err := decode(answer.Body)
	if err != nil {
		return sdk.Verdict{}, fmt.Errorf("the answer: %w", err)
	}
	return v, nil
}

// trust says whether the answer is one that may be read at all.
func (s *service) trust(a *signedhttp.Answer, id string, now time.Time) error {
	switch {
	case a.Status >= 300 && a.Status < 400:
		return fmt.Errorf("the service answered %d: redirects are not followed", a.Status)
	case a.Status != http.StatusOK:
		return fmt.Errorf("the service answered %d, only 200 is an answer", a.Status)
	case a.Cut:
		return fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	types := a.Header.Values("Content-Type")
	kind, params, err := mime.ParseMediaType(strings.Join(types, ", "))
	charset := params["charset"]
	if err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return errors.New("the answer's Content-Type is not application/json")
	}
	if len(s.answerSecrets) > 0 {
		if err := signedhttp.Verify(a.Header, id, now, a.Body, s.answerSecrets...); err != nil {
			return fmt.Errorf("the answer's signature: %w", err)
		}
	}
	return nil
}

func (a *asker) close(ctx context.Context) error {
	s := a.running.Swap(nil)
	if s == nil {
		return nil
	}
	s.client.Close()
	if s.demo != nil {
		return s.demo.Close(ctx)
	}
	return nil
}
