package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
)

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// tryFor is how long one try may take.
const tryFor = 10 * time.Second

// mrkdwn is a message about one call. All that comes from outside is code.
func mrkdwn(e *event, link string) string {
	var b strings.Builder
	b.WriteString("*" + e.title() + "*\n")
	for _, f := range e.fields() {
		b.WriteString("• " + f.name + ": " + slackCode(f.value) + "\n")
	}
	b.WriteString(slackLink(link, e.opens()))
	return b.String()
}

func slackLink(link string, open bool) string {
	if open {
		return "<" + link + "|Sign in to the console to decide>"
	}
	return "<" + link + "|Open in the console>"
}

func mrkdwnDigest(d *digest, link string) string {
	var b strings.Builder
	b.WriteString("*" + d.head() + "*\n")
	list := func(all []*event) {
		some, more := shown(all)
		for _, e := range some {
			b.WriteString("• " + e.word() + ": " + slackCode(visible(e.Tool, maxName)) + " by " +
				slackCode(visible(e.Agent, maxName)) + "\n")
		}
		if more > 0 {
			fmt.Fprintf(&b, "• and %d more\n", more)
		}
	}
	list(d.opened)
	list(d.settled)
	b.WriteString(slackLink(link, len(d.opened) > 0))
	return b.String()
}

// slackMessage is what both kinds of Slack targets post. Nothing of a link is shown, and no name is turned into a
// mention.
type slackMessage struct {
	Channel     string `json:"channel,omitempty"`
	TS          string `json:"ts,omitempty"`
	ThreadTS    string `json:"thread_ts,omitempty"`
	Text        string `json:"text"`
	UnfurlLinks bool   `json:"unfurl_links"`
	UnfurlMedia bool   `json:"unfurl_media"`
	LinkNames   bool   `json:"link_names"`
}

// slackHook posts to an incoming webhook. It cannot edit, so the end of a call is another message.
type slackHook struct {
	client *signedhttp.Client
	clock  signedhttp.Clock
	links  links
}

func (s *slackHook) post(ctx context.Context, until time.Time, text string) error {
	body, err := json.Marshal(slackMessage{Text: text})
	if err != nil {
		return err
	}
	return signedhttp.Deliver(ctx, s.clock, until, func(ctx context.Context) (time.Duration, bool, error) {
		return s.client.Once(ctx, s.clock, tryFor, signedhttp.Message{Body: body})
	})
}

func (s *slackHook) sendOpened(ctx context.Context, until time.Time, e *event) (ref, error) {
	return ref{}, s.post(ctx, until, mrkdwn(e, s.links.of(e)))
}

func (s *slackHook) sendSettled(ctx context.Context, until time.Time, e *event, _ ref) error {
	return s.post(ctx, until, mrkdwn(e, s.links.of(e)))
}

func (s *slackHook) sendDigest(ctx context.Context, until time.Time, d *digest) error {
	return s.post(ctx, until, mrkdwnDigest(d, s.links.all()))
}

func (s *slackHook) close() { s.client.Close() }

// slackBot posts with a bot's token, and edits its messages.
type slackBot struct {
	client  *signedhttp.Client
	clock   signedhttp.Clock
	links   links
	api     string // without a slash at the end
	channel string
	token   string
}

// slackLater are errors of Slack's that pass.
var slackLater = map[string]bool{"ratelimited": true, "rate_limited": true, "internal_error": true, "fatal_error": true,
	"service_unavailable": true, "request_timeout": true}

// errSlack is an error of Slack's that will not pass.
type errSlack struct{ code string }

func (e *errSlack) Error() string { return "Slack answered " + visible(e.code, 60) }

func (s *slackBot) call(ctx context.Context, until time.Time, method string, m slackMessage) (out ref, err error) {
	body, err := json.Marshal(m)
	if err != nil {
		return ref{}, err
	}
	msg := signedhttp.Message{URL: s.api + "/" + method, Body: body,
		Header: http.Header{"Authorization": {"Bearer " + s.token}}}
	err = signedhttp.Deliver(ctx, s.clock, until, func(ctx context.Context) (time.Duration, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, tryFor)
		defer cancel()
		a, err := s.client.Post(ctx, s.clock.Now(), msg)
		if err != nil {
			return 0, true, err
		}
		if a.Class() != signedhttp.Taken {
			return a.RetryAfter(s.clock.Now()), a.Class() == signedhttp.Again, &signedhttp.Refused{Status: a.Status}
		}
		var said struct {
			OK      bool   `json:"ok"`
			Error   string `json:"error"`
			Channel string `json:"channel"`
			TS      string `json:"ts"`
		}
		if a.Cut || json.Unmarshal(a.Body, &said) != nil {
			return 0, true, errors.New("the answer of Slack cannot be read")
		}
		if !said.OK {
			return a.RetryAfter(s.clock.Now()), slackLater[said.Error], &errSlack{said.Error}
		}
		out = ref{Channel: said.Channel, TS: said.TS}
		return 0, false, nil
	})
	return out, err
}

func (s *slackBot) sendOpened(ctx context.Context, until time.Time, e *event) (ref, error) {
	return s.call(ctx, until, "chat.postMessage", slackMessage{Channel: s.channel, Text: mrkdwn(e, s.links.of(e))})
}

// sendSettled edits the message. One that is not known, or that Slack does not let us edit, is answered instead.
func (s *slackBot) sendSettled(ctx context.Context, until time.Time, e *event, of ref) error {
	m := slackMessage{Channel: of.Channel, TS: of.TS, Text: mrkdwn(e, s.links.of(e))}
	if of.TS != "" {
		_, err := s.call(ctx, until, "chat.update", m)
		var slack *errSlack
		var unready *signedhttp.Unready
		if err == nil || errors.As(err, &unready) || !errors.As(err, &slack) {
			return err
		}
	}
	m.Channel, m.ThreadTS, m.TS = s.channel, of.TS, ""
	if of.Channel != "" {
		m.Channel = of.Channel
	}
	_, err := s.call(ctx, until, "chat.postMessage", m)
	return err
}

func (s *slackBot) sendDigest(ctx context.Context, until time.Time, d *digest) error {
	_, err := s.call(ctx, until, "chat.postMessage",
		slackMessage{Channel: s.channel, Text: mrkdwnDigest(d, s.links.all())})
	return err
}

func (s *slackBot) close() { s.client.Close() }
