package conform

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// Client is one plugin with its settings, for an author who tries it by hand: each answer is read as strictly as the
// gateway reads it. Its methods are one goroutine's.
type Client struct {
	r      *run
	s      Session
	Name   string
	Kinds  []string
	Digest string // of the file; "" with Connect
}

// Dial starts a plugin as the gateway does, or connects to one, and hands over its settings. ctx bounds that. With
// Connect the secrets reach it as files of ours, which a plugin of the same user can read. The caller closes the
// Client.
func Dial(ctx context.Context, o Options) (_ *Client, err error) {
	secrets := o.Secrets
	if o.Connect != "" {
		o.Secrets = nil
	}
	r, err := newRun(o)
	if err != nil {
		return nil, err
	}
	r.opts.Secrets = secrets
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	s, err := r.fresh(ctx)
	if err != nil {
		return nil, err
	}
	if r.info, err = r.plugin(s).Info(ctx, r.infoRequest(1)); err != nil {
		return nil, r.gone(s, fmt.Errorf("Info: %s", said(err)))
	}
	if err := wrongInfo(r.info); err != nil {
		return nil, fmt.Errorf("Info: %w", err)
	}
	r.config = []byte(orEmpty(r.info.ExampleConfig))
	if o.Config != nil {
		r.config = o.Config
	}
	if r.info.ConfigSchema != "" && o.CheckConfig != nil {
		if err := o.CheckConfig(r.info.ConfigSchema, r.config); isSchemaFault(err) {
			return nil, fmt.Errorf("Info: %w", err)
		} else if err != nil {
			return nil, fmt.Errorf("the settings do not fit the plugin's schema: %w", err)
		}
	}
	c := &Client{r: r, Name: oneLine(r.info.Name), Digest: r.digest}
	for _, k := range r.info.Kinds {
		c.Kinds = append(c.Kinds, kindName(k))
	}
	return c, c.configure(ctx, secrets)
}

// configure hands over the settings and the secrets that were given. A plugin that runs already may have its settings.
func (c *Client) configure(ctx context.Context, secrets map[string][]byte) (err error) {
	r := c.r
	if r.secrets, _, err = newSecrets(secrets, nil); err != nil {
		return err
	}
	// the host hands them over when it starts the process
	if r.opts.Open == nil && r.opts.Connect == "" && len(secrets) > 0 {
		r.values = secrets
		r.forget()
	}
	if len(r.opened) == 0 {
		if _, err := r.fresh(ctx); err != nil {
			return err
		}
	}
	c.s = r.opened[0]
	resp, err := r.plugin(c.s).Configure(ctx, r.request(c.s, false))
	switch {
	case status.Code(err) == codes.FailedPrecondition && r.opts.Connect != "":
		return nil
	case err != nil:
		return r.gone(c.s, fmt.Errorf("Configure: %s", said(err)))
	case len(resp.Problems) > 0:
		return fmt.Errorf("Configure: %s", problems(resp))
	}
	return nil
}

// Is says whether the plugin is of a kind: authorizer, scanner or subscriber.
func (c *Client) Is(kind string) bool { return slices.Contains(c.Kinds, kind) }

// Close ends the plugin if it was started here, and the connection.
func (c *Client) Close() { c.r.close() }

// Answer is what a plugin said about one call.
type Answer struct {
	Effect    string   `json:"effect"`
	Code      string   `json:"code,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	RuleID    string   `json:"rule_id,omitempty"`
	Message   string   `json:"message,omitempty"`
	TTLMillis int64    `json:"ttl_ms,omitempty"`
	Approvals uint32   `json:"approvals,omitempty"`
	Approvers []string `json:"approvers,omitempty"`
	Priority  string   `json:"priority,omitempty"`
	Micros    int64    `json:"us"`
}

// Check asks about one call, with the timeout of Options. An error means that there is no verdict.
func (c *Client) Check(ctx context.Context, id uint64, call Call) (*Answer, error) {
	if err := call.check(); err != nil {
		return nil, err
	}
	req := c.r.check(id, call)
	began := time.Now()
	req.DeadlineUnixNano = began.Add(c.r.opts.Timeout).UnixNano()
	ctx, cancel := context.WithTimeout(ctx, c.r.opts.Timeout)
	defer cancel()
	resp, err := c.r.ask(ctx, c.s, req)
	switch {
	case err != nil:
		return nil, asFault(err)
	case resp.Error != "":
		return nil, errors.New(oneLine(resp.Error))
	}
	return &Answer{effectName(resp.Effect), resp.Code, resp.Reason, resp.RuleId, resp.Message, resp.TtlMs, resp.Approvals,
		resp.Approvers, resp.Priority, time.Since(began).Microseconds()}, nil
}

// Scan looks through one text. An error means that it was not covered.
func (c *Client) Scan(ctx context.Context, text string) ([]sdk.Finding, error) {
	req := c.r.text(1, text)
	req.DeadlineUnixNano = time.Now().Add(c.r.opts.Timeout).UnixNano()
	ctx, cancel := context.WithTimeout(ctx, c.r.opts.Timeout)
	defer cancel()
	resp, err := c.r.scanner(c.s).Scan(ctx, req)
	if err != nil {
		return nil, c.r.gone(c.s, errors.New(said(err)))
	}
	if err := c.r.wrongFindings(req, resp); err != nil {
		return nil, err
	}
	if resp.Error != "" {
		return nil, errors.New(oneLine(resp.Error))
	}
	out := make([]sdk.Finding, 0, len(resp.Findings))
	for _, f := range resp.Findings {
		out = append(out, sdk.Finding{Kind: f.Kind, Start: int(f.Start), End: int(f.End), Confidence: f.Confidence,
			Severity: sdk.Severity(f.Severity - pluginv1.Finding_SEVERITY_INFO), Suggested: actions[f.Suggested],
			Replacement: f.Replacement})
	}
	return out, nil
}

// actions are the wire's as ours: who suggests nothing flags.
var actions = map[pluginv1.Finding_Action]sdk.Action{
	pluginv1.Finding_ACTION_UNSPECIFIED: sdk.Flag, pluginv1.Finding_ACTION_FLAG: sdk.Flag,
	pluginv1.Finding_ACTION_REDACT: sdk.Redact, pluginv1.Finding_ACTION_REPLACE: sdk.Replace,
	pluginv1.Finding_ACTION_DENY: sdk.Drop,
}

const (
	maxBatch   = 256     // records of one batch
	batchBytes = 1 << 20 // of its records
	maxRecord  = 4 << 20 // bytes of one line of a log
)

// Feed gives a subscriber an exported log (the header line and the records) from its beginning, in the gateway's
// batches, at most four without an acknowledgement. acked is told how far it came. An error says where it stopped.
func (c *Client) Feed(ctx context.Context, log io.Reader, acked func(seq uint64)) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(make([]byte, 64<<10), maxRecord)
	l, err := logOf(lines)
	if err != nil {
		return err
	}
	f, err := c.r.consume(ctx, c.s)
	if err != nil {
		return err
	}
	defer f.cancel()
	var sent []uint64 // last records of batches without an acknowledgement
	for {
		b, err := l.read(lines)
		if err != nil {
			return err
		}
		for len(sent) > 0 && (b == nil || len(sent) >= 4) {
			if err := f.await(sent[0]); err != nil {
				return err
			}
			acked(f.acked)
			sent = sent[1:]
		}
		if b == nil {
			return nil
		}
		if err := f.send(b); err != nil {
			return err
		}
		sent = append(sent, b.LastSeq)
	}
}

// logOf reads the header of an export.
func logOf(lines *bufio.Scanner) (*auditLog, error) {
	var head struct {
		Format  string   `json:"format"`
		StoreID string   `json:"store_id"`
		FromSeq uint64   `json:"from_seq"`
		Front   []string `json:"front"`
	}
	if !lines.Scan() {
		return nil, errors.Join(errors.New("the log is empty"), lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &head); err != nil || head.Format != log.ExportFormat {
		return nil, fmt.Errorf("line 1 is no header of an export (%s): write one with yett audit export", log.ExportFormat)
	}
	if head.FromSeq == 0 {
		head.FromSeq = 1
	}
	l := &auditLog{store: head.StoreID, next: head.FromSeq}
	if err := l.front(head.Front); err != nil {
		return nil, fmt.Errorf("line 1: front: %w", err)
	}
	return l, nil
}

// read makes a batch of the next lines; nil at the end.
func (l *auditLog) read(lines *bufio.Scanner) (*pluginv1.Batch, error) {
	b := &pluginv1.Batch{StoreId: l.store, FirstSeq: l.next}
	for size := 0; len(b.Records) < maxBatch && size < batchBytes && lines.Scan(); {
		var rec struct {
			Seq uint64 `json:"seq"`
		}
		line := bytes.Clone(lines.Bytes())
		if err := json.Unmarshal(line, &rec); err != nil || rec.Seq != l.next {
			return nil, fmt.Errorf("line %d is not record %d of the log", l.next+1, l.next)
		}
		leaf := sha256.Sum256(append([]byte{0}, line...))
		b.Records = append(b.Records, &pluginv1.Record{Seq: l.next, Json: line, LeafHash: leaf[:]})
		l.tree.Append(line, nil)
		l.next++
		size += len(line)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("record %d: %w", l.next, err)
	}
	if len(b.Records) == 0 {
		return nil, nil
	}
	b.LastSeq = l.next - 1
	root := l.tree.Root()
	b.TreeRoot = root[:]
	return b, nil
}

// peaks are the roots of the complete subtrees in front of an export.
type peaks []tlog.Hash

// ReadHashes gives all of them: log.Resume asks for exactly those.
func (p peaks) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	if len(indexes) != len(p) {
		return nil, fmt.Errorf("%d hashes, want %d", len(p), len(indexes))
	}
	return p, nil
}

// front goes on from the records that retention removed.
func (l *auditLog) front(texts []string) error {
	var all peaks
	for _, text := range texts {
		h, err := tlog.ParseHash(text)
		if err != nil {
			return err
		}
		all = append(all, h)
	}
	tree, err := log.Resume(l.next-1, all)
	if err != nil {
		return err
	}
	l.tree = *tree
	return nil
}
