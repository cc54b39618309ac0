package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
	"github.com/yett-dev/yett/sdk/plugin"
)

// secretCredentials is a JSON object: the name of a credential, and its value.
const secretCredentials = "credentials"

// config is what operators write.
type config struct {
	ConsoleURL string         `json:"console_url"`
	State      string         `json:"state"`
	ShowArgs   bool           `json:"show_args"`
	RetryFor   string         `json:"retry_for"`
	Targets    []targetConfig `json:"targets"`
}

type targetConfig struct {
	signedhttp.Endpoint
	Name       string     `json:"name"`
	Kind       string     `json:"kind"`
	Tools      []string   `json:"tools"`
	Agents     []string   `json:"agents"`
	Priorities []string   `json:"priorities"`
	OnFailure  string     `json:"on_failure"`
	PerMinute  int        `json:"per_minute"`
	DigestOver *int       `json:"digest_over"`
	Credential string     `json:"credential_name"`
	Unsigned   bool       `json:"unsigned"`
	Channel    string     `json:"channel"`
	SMTP       smtpConfig `json:"smtp"`
	From       string     `json:"from"`
	To         []string   `json:"to"`
}

type smtpConfig struct {
	Address  string `json:"address"`
	Security string `json:"security"`
	Hello    string `json:"hello"`
	Username string `json:"username"`
}

// The kinds of targets.
const (
	kindSlack   = "slack"
	kindBot     = "slack_bot"
	kindWebhook = "webhook"
	kindMail    = "email"
	kindLog     = "log"
)

const (
	maxTargets = 16
	slackAPI   = "https://slack.com/api"
)

const globList = `{"type": "array", "maxItems": 64, "items": {"type": "string", "minLength": 1, "maxLength": 256}}`

// kindSchemas say which settings a kind of target needs, and which do not go with it.
const kindSchemas = `
        "allOf": [
          {"if": {"properties": {"kind": {"const": "slack"}}},
           "then": {"required": ["credential_name"], "properties": {"url": false, "channel": false, "unsigned": {"const": false}, "smtp": false, "from": false, "to": false}}},
          {"if": {"properties": {"kind": {"const": "slack_bot"}}},
           "then": {"required": ["credential_name", "channel"], "properties": {"unsigned": {"const": false}, "smtp": false, "from": false, "to": false}}},
          {"if": {"properties": {"kind": {"const": "webhook"}}},
           "then": {"required": ["url"], "properties": {"channel": false, "smtp": false, "from": false, "to": false},
                    "oneOf": [{"required": ["credential_name"], "properties": {"unsigned": {"const": false}}}, {"required": ["unsigned"], "properties": {"unsigned": {"const": true}, "credential_name": false}}]}},
          {"if": {"properties": {"kind": {"const": "email"}}},
           "then": {"required": ["smtp", "from", "to"], "properties": {"url": false, "proxy": false, "channel": false, "unsigned": {"const": false},
                    "to": {"minItems": 1}, "smtp": {"required": ["address"]}, "tls": {"properties": {"cert_file": false, "key_file": false}}}}},
          {"if": {"properties": {"kind": {"const": "log"}}},
           "then": {"properties": {"credential_name": false, "url": false, "proxy": false, "channel": false, "unsigned": {"const": false}, "smtp": false, "from": false, "to": false}}}
        ],`

const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["console_url", "targets"],
  "properties": {
    "console_url": {"type": "string", "pattern": "^https?://[^|<>\"\\s?#]+$", "maxLength": 2048, "description": "where approvers reach the console; links begin with it"},
    "state": {"type": "string", "pattern": "^(/.*)?$", "maxLength": 4096, "default": "", "description": "folder for what was sent, which must exist; empty: messages are not updated after a restart"},
    "show_args": {"type": "boolean", "default": false, "description": "show the call's arguments, as the subscriber's payload has them"},
    "retry_for": {"type": "string", "pattern": "` + signedhttp.DurationPattern + `", "maxLength": 32, "default": "20s", "description": "how long a target is tried, 0s to 25s"},
    "targets": {
      "type": "array", "minItems": 1, "maxItems": 16,
      "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "kind"],` + kindSchemas + `
        "properties": {` + signedhttp.EndpointSchema + `,
          "name": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-zA-Z0-9_-]+$"},
          "kind": {"enum": ["slack", "slack_bot", "webhook", "email", "log"]},
          "tools": ` + globList + `,
          "agents": ` + globList + `,
          "priorities": {"type": "array", "maxItems": 4, "items": {"enum": ["low", "medium", "high", "none"]}},
          "on_failure": {"enum": ["retry", "drop"], "default": "retry", "description": "retry: the batch fails, and the host decides; drop: the message is given up with a line in the log"},
          "per_minute": {"type": "integer", "minimum": 10, "maximum": 600, "default": 30},
          "digest_over": {"type": "integer", "minimum": 0, "maximum": 50, "default": 5, "description": "so many calls of one batch have a message each; the others share one"},
          "credential_name": {"type": "string", "maxLength": 64, "description": "name in the secret credentials: the webhook's URL (slack), the bot's token (slack_bot), whsec_… (webhook), the password (email)"},
          "unsigned": {"type": "boolean", "default": false, "description": "webhook: send without a signature"},
          "channel": {"type": "string", "minLength": 1, "maxLength": 80, "description": "slack_bot: the channel's id"},
          "smtp": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
              "address": {"type": "string", "maxLength": 300, "description": "host:port"},
              "security": {"enum": ["starttls", "tls", "none"], "default": "starttls"},
              "hello": {"type": "string", "maxLength": 253, "default": "localhost", "description": "the name that we give at EHLO"},
              "username": {"type": "string", "maxLength": 320}
            }
          },
          "from": {"type": "string", "maxLength": 320},
          "to": {"type": "array", "maxItems": 50, "items": {"type": "string", "maxLength": 320}}
        }
      }
    }
  }
}`

// wrongs gathers problems under one place in the settings.
type wrongs struct {
	at   string
	list *plugin.Problems
}

func (w wrongs) add(field, message string) {
	*w.list = append(*w.list, plugin.Problem{Field: w.at + field, Message: message})
}

// read checks the settings without touching anything.
func read(in plugin.Settings) (config, map[string]string, error) {
	c := config{RetryFor: "20s"}
	if err := in.Decode(&c); err != nil {
		return c, nil, err
	}
	var problems plugin.Problems
	w := wrongs{"", &problems}
	credentials := map[string]string{}
	if text, given := in.Secrets[secretCredentials]; given {
		if err := (plugin.Settings{Config: json.RawMessage(text)}).Decode(&credentials); err != nil {
			w.add("secrets."+secretCredentials, "must be a JSON object of strings") // nothing of the text is shown
		}
	}
	if u, err := url.Parse(c.ConsoleURL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(c.ConsoleURL, "|<>\" \r\n") {
		w.add("/console_url", "must be a URL such as https://yett.example.com:8422, without user, query and fragment")
	}
	if c.State != "" && !filepath.IsAbs(c.State) {
		w.add("/state", "must be an absolute path")
	}
	if _, err := span(c.RetryFor); err != nil {
		w.add("/retry_for", err.Error())
	}
	if n := len(c.Targets); n == 0 || n > maxTargets {
		w.add("/targets", fmt.Sprintf("must be 1 to %d", maxTargets))
	}
	names := map[string]bool{}
	for i := range c.Targets {
		t := &c.Targets[i]
		tw := wrongs{fmt.Sprintf("/targets/%d", i), &problems}
		if !signedhttp.Name(t.Name) || len(t.Name) > 64 || names[t.Name] {
			tw.add("/name", "must be 1 to 64 letters, digits, _ and -, and no other target's")
		}
		names[t.Name] = true
		t.check(tw, credentials)
	}
	if problems != nil {
		return c, nil, problems
	}
	return c, credentials, nil
}

// check fills in defaults and says what is wrong with one target.
func (t *targetConfig) check(w wrongs, credentials map[string]string) {
	if t.OnFailure == "" {
		t.OnFailure = "retry"
	}
	if t.OnFailure != "retry" && t.OnFailure != "drop" {
		w.add("/on_failure", "must be retry or drop")
	}
	if t.PerMinute == 0 {
		t.PerMinute = 30
	}
	if t.PerMinute < 10 || t.PerMinute > 600 {
		w.add("/per_minute", "must be 10 to 600")
	}
	if t.DigestOver == nil {
		t.DigestOver = new(int)
		*t.DigestOver = 5
	}
	if *t.DigestOver < 0 || *t.DigestOver > 50 {
		w.add("/digest_over", "must be 0 to 50")
	}
	for _, g := range []struct {
		field string
		list  []string
	}{{"/tools", t.Tools}, {"/agents", t.Agents}} {
		if len(g.list) > 64 || slices.ContainsFunc(g.list, func(s string) bool { return s == "" || len(s) > 256 }) {
			w.add(g.field, "must be at most 64 patterns of 1 to 256 bytes")
		}
	}
	for _, p := range t.Priorities {
		if !slices.Contains([]string{"low", "medium", "high", "none"}, p) {
			w.add("/priorities", "must be low, medium, high or none")
		}
	}
	secret, given := credentials[t.Credential]
	if t.Credential != "" && !given {
		w.add("/credential_name", "is not in the secret credentials")
		return
	}
	t.checkKind(w, secret)
}

func (t *targetConfig) checkKind(w wrongs, secret string) {
	allowed := map[string][]string{
		kindSlack:   {"credential", "endpoint"},
		kindBot:     {"credential", "endpoint", "url", "channel"},
		kindWebhook: {"credential", "endpoint", "url", "unsigned"},
		kindMail:    {"credential", "tls", "mail"},
		kindLog:     {},
	}[t.Kind]
	if allowed == nil {
		w.add("/kind", "must be slack, slack_bot, webhook, email or log")
		return
	}
	for _, f := range []struct {
		name, needs string
		set         bool
	}{
		{"url", "url", t.URL != ""}, {"proxy", "endpoint", t.Proxy != ""},
		{"credential_name", "credential", t.Credential != ""}, {"unsigned", "unsigned", t.Unsigned}, {"channel", "channel", t.Channel != ""},
		{"smtp", "mail", t.SMTP != smtpConfig{}}, {"from", "mail", t.From != ""}, {"to", "mail", len(t.To) > 0},
	} {
		if f.set && !slices.Contains(allowed, f.needs) {
			w.add("/"+f.name, "does not go with "+t.Kind)
		}
	}
	switch t.Kind {
	case kindSlack:
		if why := signedhttp.CheckURL(secret, t.Insecure); why != "" {
			w.add("/credential_name", "the URL of the incoming webhook "+why)
		}
		t.URL = secret
		t.checkEndpoint(w)
	case kindBot:
		if t.URL == "" {
			t.URL = slackAPI
		}
		if secret == "" || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
			w.add("/credential_name", "must name the bot's token")
		}
		if t.Channel == "" || len(t.Channel) > 80 {
			w.add("/channel", "must be the id of a channel")
		}
		t.checkEndpoint(w)
	case kindWebhook:
		if _, err := signedhttp.ParseSecret(secret); err != nil && !t.Unsigned {
			w.add("/credential_name", err.Error()+"; or set unsigned: true")
		} else if t.Unsigned && secret != "" {
			w.add("/unsigned", "not allowed with credential")
		}
		t.checkEndpoint(w)
	case kindMail:
		t.checkMail(w, secret)
	}
}

func (t *targetConfig) checkEndpoint(w wrongs) {
	for _, f := range t.Check() {
		if f.Field == "/url" && t.Kind == kindSlack {
			continue // said of the credential
		}
		w.add(f.Field, f.Message)
	}
}

func (t *targetConfig) checkMail(w wrongs, secret string) {
	s := &t.SMTP
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil || host == "" || port == "" {
		w.add("/smtp/address", "must be host:port")
	}
	if s.Hello == "" {
		s.Hello = "localhost"
	}
	if strings.ContainsAny(s.Hello, " \r\n") {
		w.add("/smtp/hello", "must be a host's name")
	}
	if s.Security == "" {
		s.Security = securityStartTLS
	}
	switch s.Security {
	case securityStartTLS, securityTLS:
	case securityNone:
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && !t.Insecure {
			w.add("/smtp/security", "none is for this machine only, or set insecure: true")
		} else if secret != "" && (host != "localhost" && (ip == nil || !ip.IsLoopback())) {
			w.add("/smtp/security", "no password is sent in clear to another machine")
		}
	default:
		w.add("/smtp/security", "must be starttls, tls or none")
	}
	if (s.Username == "") != (secret == "") {
		w.add("/smtp/username", "comes together with a credential, the password")
	}
	if !isAddress(t.From) {
		w.add("/from", "must be a mail address of ASCII characters")
	}
	if len(t.To) == 0 || len(t.To) > 50 {
		w.add("/to", "must be 1 to 50 mail addresses")
	}
	for i, to := range t.To {
		if !isAddress(to) {
			w.add(fmt.Sprintf("/to/%d", i), "must be a mail address of ASCII characters")
		}
	}
	if t.TLS.CAFile != "" && !filepath.IsAbs(t.TLS.CAFile) {
		w.add("/tls/ca_file", "must be an absolute path")
	}
	if t.TLS.CertFile != "" || t.TLS.KeyFile != "" {
		w.add("/tls", "email takes only ca_file")
	}
}

// isAddress says whether mail can be handed over for an address as it stands: a server need not know SMTPUTF8, and
// net/smtp puts the address into a command without quotes.
func isAddress(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && !strings.ContainsFunc(a.Address, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"\\<>`, r)
	})
}
