package main

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"sync"
	"time"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
	"github.com/yett-dev/yett/sdk/plugin"
)

// notifier is the subscriber.
type notifier struct {
	clock signedhttp.Clock

	mu       sync.Mutex // held for a whole batch: batches come one at a time
	args     bool
	retryFor time.Duration
	state    *state
	targets  []*target // nil: not configured
}

func newNotifier() *notifier { return &notifier{clock: signedhttp.SystemClock()} }

func newPlugin() plugin.Subscriber {
	n := newNotifier()
	return plugin.Subscriber{
		Info: plugin.Info{
			Name: "notify", Version: "1.0.0", Description: "tells approvers about deferred calls, by Slack, signed webhooks " +
				"and mail",
			ConfigSchema: schema, ExampleConfig: `{"console_url": "http://127.0.0.1:8422", "targets": [{"name": "log", "kind": "log"}]}`,
			Secrets: []plugin.Secret{{Name: secretCredentials,
				Description: "a JSON object: names of credentials, and their values"}},
		},
		Validate:  func(_ context.Context, in plugin.Settings) error { _, _, err := read(in); return err },
		Configure: func(_ context.Context, in plugin.Settings) error { return n.configure(in) },
		Consume:   n.consume,
		Close:     func(context.Context) error { return n.close() },
	}
}

func span(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 25*time.Second {
		return 0, errors.New("must be a duration of 0s to 25s")
	}
	return d, nil
}

func (n *notifier) configure(in plugin.Settings) error {
	c, credentials, err := read(in)
	if err != nil {
		return err
	}
	if c.State != "" {
		if info, err := os.Stat(c.State); err != nil || !info.IsDir() {
			return plugin.Problem{Field: "/state", Message: "is not a folder that the plugin's user can reach"}
		}
	} else {
		in.Log.Warn("no state folder: messages that were sent before a restart will not be updated")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.args = c.ShowArgs
	if n.retryFor, err = span(c.RetryFor); err != nil {
		return err
	}
	n.state = &state{dir: c.State, log: in.Log}
	var targets []*target
	for i := range c.Targets {
		t := &c.Targets[i]
		to, err := n.sender(t, credentials[t.Credential], links{c.ConsoleURL}, in)
		if err != nil {
			for _, made := range targets {
				made.to.close()
			}
			return plugin.Problem{Field: fmt.Sprintf("/targets/%d", i), Message: err.Error()}
		}
		targets = append(targets, &target{name: t.Name, tools: t.Tools, agents: t.Agents, priorities: t.Priorities,
			drop: t.OnFailure == "drop", most: *t.DigestOver,
			rate: bucket{perMinute: t.PerMinute, burst: max(2**t.DigestOver, 1)}, to: to, state: n.state, clock: n.clock,
			log: in.Log})
	}
	n.targets = targets
	return nil
}

func (n *notifier) sender(t *targetConfig, secret string, l links, in plugin.Settings) (sender, error) {
	switch t.Kind {
	case kindLog:
		return &logged{in.Log, l}, nil
	case kindMail:
		return n.mailer(t, secret, l)
	}
	client, err := t.Endpoint.New(4, maxAnswer)
	if err != nil {
		return nil, err
	}
	switch t.Kind {
	case kindSlack:
		return &slackHook{client, n.clock, l}, nil
	case kindBot:
		return &slackBot{client: client, clock: n.clock, links: l, api: t.URL, channel: t.Channel, token: secret}, nil
	}
	h := &hook{client: client, clock: n.clock, links: l}
	if !t.Unsigned {
		s, err := signedhttp.ParseSecret(secret)
		if err != nil {
			return nil, err
		}
		h.secrets = []signedhttp.Secret{s}
	}
	return h, nil
}

func (n *notifier) mailer(t *targetConfig, secret string, l links) (sender, error) {
	conf, err := t.TLS.Config()
	if err != nil {
		return nil, err
	}
	m := &mailer{clock: n.clock, links: l, smtp: &smtpClient{address: t.SMTP.Address, security: t.SMTP.Security,
		conf: conf, hello: t.SMTP.Hello, username: t.SMTP.Username, password: secret}}
	if m.from, err = mail.ParseAddress(t.From); err != nil {
		return nil, errors.New("from is no mail address")
	}
	for _, text := range t.To {
		a, err := mail.ParseAddress(text)
		if err != nil {
			return nil, errors.New("to holds what is no mail address")
		}
		m.to = append(m.to, a)
	}
	return m, nil
}

// maxBatch is how long a batch may take at most: the host waits 30s, and holds silence against a record.
const maxBatch = 28 * time.Second

// consume tells all targets, side by side, what is news in a batch. nil: each knows, or has given it up. A
// *plugin.RecordError is about a record that cannot be read, or whose message is refused for what is in it. Any other
// error, as when a target is down, blames no record: what not all targets know comes again for as long as that lasts.
func (n *notifier) consume(ctx context.Context, b *plugin.Batch) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.targets == nil {
		return errors.New("the plugin is not configured, or is closed")
	}
	if g := b.Gap; g != nil {
		n.state.log.Warn("records do not come here: nobody is told of the calls in them", "first_seq", g.First, "last_seq",
			g.Last, "reason", g.Reason)
	}
	all, bad := events(b, n.args)
	if len(all) == 0 {
		return behind(nil, earliest(nil, bad))
	}
	if !signedhttp.Name(b.StoreID) {
		return errors.New("the store id cannot be part of a message's id: letters, digits, _ and - only")
	}
	if err := n.state.load(); err != nil {
		return err
	}
	until := n.clock.Now().Add(n.retryFor)
	ctx, cancel := context.WithTimeout(ctx, min(n.retryFor+tryFor/2, maxBatch))
	defer cancel()
	id := fmt.Sprintf("digest-%s-%d-%d", b.StoreID, b.First, b.Last)
	results := make([]*failed, len(n.targets))
	var wg sync.WaitGroup
	for i, t := range n.targets {
		wg.Go(func() { results[i] = t.tell(ctx, until, id, all) })
	}
	wg.Wait()
	return behind(all, earliest(results, bad))
}

// behind says of an outage which calls all targets know of already, so that they are not told again, not even without a
// state. It is up to the last record of those: the ones that follow it may belong to the next call.
func behind(all []*event, err *failed) error {
	told := uint64(0)
	for _, e := range all {
		if err != nil && e.Seq < err.seq {
			told = e.Seq
		}
	}
	switch {
	case err == nil:
		return nil
	case err.content:
		return &plugin.RecordError{Seq: err.seq, Err: err.err}
	case told == 0:
		return err.err
	}
	return &plugin.Later{Seq: told + 1, Err: err.err}
}

// earliest is the first thing that went wrong: a record that is bad, or one that some target could not be told of.
func earliest(results []*failed, bad *plugin.RecordError) *failed {
	var first *failed
	if bad != nil {
		first = &failed{seq: bad.Seq, err: bad.Err, content: true}
	}
	for _, f := range results {
		if f != nil && (first == nil || f.seq < first.seq || f.seq == first.seq && !f.content) {
			first = f
		}
	}
	return first
}

func (n *notifier) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.targets {
		t.to.close()
	}
	n.targets = nil
	if n.state == nil {
		return nil
	}
	return n.state.close()
}
