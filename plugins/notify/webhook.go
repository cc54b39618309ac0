package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
)

// links lead into the console. They name a deferred call by the id of its decision, and whoever follows one signs in
// there.
type links struct{ console string }

func (l links) of(e *event) string { return l.all() + "/" + e.ID }
func (l links) all() string        { return strings.TrimSuffix(l.console, "/") + "/approvals" }

// hook posts signed JSON.
type hook struct {
	client  *signedhttp.Client
	clock   signedhttp.Clock
	links   links
	secrets []signedhttp.Secret
}

type hookEvent struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

// hookCall is one call. Both of its events have the same id in it; their webhook-ids differ.
type hookCall struct {
	ID        string          `json:"id"`
	Status    string          `json:"status"`
	Tool      string          `json:"tool_id"`
	Agent     string          `json:"agent_id"`
	Session   string          `json:"session_id,omitempty"`
	AskedBy   string          `json:"asked_by,omitempty"`
	Rule      string          `json:"rule_id,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Priority  string          `json:"priority,omitempty"`
	Approver  string          `json:"approver_id,omitempty"`
	Approvals int             `json:"approvals"`
	Required  int             `json:"approvals_required"`
	Expires   time.Time       `json:"expires_at"`
	Args      json.RawMessage `json:"args,omitempty"`
	URL       string          `json:"url"`
}

type hookDigest struct {
	Opened      []hookCall `json:"opened"`
	MoreOpened  int        `json:"more_opened"`
	Settled     []hookCall `json:"settled"`
	MoreSettled int        `json:"more_settled"`
	URL         string     `json:"url"`
}

func (h *hook) callOf(e *event) hookCall {
	return hookCall{e.ID, e.word(), e.Tool, e.Agent, e.Session, e.AskedBy, e.Rule, e.Reason, e.Priority, e.Approver,
		e.Approvals, e.Required, e.Expires, e.Args, h.links.of(e)}
}

func (h *hook) post(ctx context.Context, until time.Time, id string, e hookEvent) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return err
	}
	m := signedhttp.Message{ID: id, Body: bytes.TrimSuffix(buf.Bytes(), []byte("\n")), Secrets: h.secrets, Replays: true}
	return signedhttp.Deliver(ctx, h.clock, until, func(ctx context.Context) (time.Duration, bool, error) {
		return h.client.Once(ctx, h.clock, tryFor, m)
	})
}

func eventID(e *event) string { return fmt.Sprintf("%s-%d", e.ID, e.Seq) }

func (h *hook) sendOpened(ctx context.Context, until time.Time, e *event) (ref, error) {
	return ref{}, h.post(ctx, until, eventID(e), hookEvent{"yett.approval.requested", e.At, h.callOf(e)})
}

func (h *hook) sendSettled(ctx context.Context, until time.Time, e *event, _ ref) error {
	return h.post(ctx, until, eventID(e), hookEvent{"yett.approval.settled", e.At, h.callOf(e)})
}

func (h *hook) sendDigest(ctx context.Context, until time.Time, d *digest) error {
	out := hookDigest{Opened: []hookCall{}, Settled: []hookCall{}, URL: h.links.all()}
	var at time.Time
	list := func(all []*event, into *[]hookCall) int {
		some, more := shown(all)
		for _, e := range some {
			*into = append(*into, h.callOf(e))
		}
		for _, e := range all {
			if e.At.After(at) {
				at = e.At
			}
		}
		return more
	}
	out.MoreOpened = list(d.opened, &out.Opened)
	out.MoreSettled = list(d.settled, &out.Settled)
	return h.post(ctx, until, d.id, hookEvent{"yett.approval.digest", at, out})
}

func (h *hook) close() { h.client.Close() }

// logged writes to the plugin's log, which is the gateway's.
type logged struct {
	log   *slog.Logger
	links links
}

func (l *logged) sendOpened(ctx context.Context, until time.Time, e *event) (ref, error) {
	return ref{}, l.sendSettled(ctx, until, e, ref{})
}

func (l *logged) sendSettled(_ context.Context, _ time.Time, e *event, _ ref) error {
	l.log.Info(e.title(), "tool_id", visible(e.Tool, maxName), "agent_id", visible(e.Agent, maxName), "status", e.word(),
		"url", l.links.of(e))
	return nil
}

func (l *logged) sendDigest(_ context.Context, _ time.Time, d *digest) error {
	l.log.Info(d.head(), "url", l.links.all())
	return nil
}

func (l *logged) close() {}
