package main

import (
	"time"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
	"github.com/yett-dev/yett/sdk/plugin"
)

// The names of the secrets beside those that every plugin with an endpoint has.
const (
	secretAnswer      = "answer_secret"
	secretAnswerOther = "answer_secret_other"
)

// config is what operators write.
type config struct {
	signedhttp.Endpoint
	Demo          bool   `json:"demo"`
	Unsigned      bool   `json:"unsigned"`
	SignedAnswers bool   `json:"signed_answers"`
	Timeout       string `json:"timeout"`
	Connections   int    `json:"connections"`
}

const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "oneOf": [
    {"required": ["url"], "properties": {"demo": {"const": false}}},
    {"required": ["demo"], "properties": {"demo": {"const": true}, "url": false, "proxy": false, "tls": false, "insecure": {"const": false}, "signed_answers": {"const": false}}}
  ],
  "properties": {` + signedhttp.EndpointSchema + `,
    "demo": {"type": "boolean", "default": false, "description": "ask a service inside the plugin that abstains from everything"},
    "unsigned": {"type": "boolean", "default": false, "description": "ask without a signature"},
    "signed_answers": {"type": "boolean", "default": false, "description": "an answer without a signature of answer_secret is an error"},
    "timeout": {"type": "string", "pattern": "` + signedhttp.DurationPattern + `", "maxLength": 32, "default": "1s", "description": "the most that one question may take, 1ms to 25s; the check's own deadline is often sooner"},
    "connections": {"type": "integer", "minimum": 1, "maximum": 1024, "default": 64, "description": "connections to the service at once"}
  }
}`

// settings are a config that holds.
type settings struct {
	endpoint      signedhttp.Endpoint
	demo          bool
	timeout       time.Duration
	connections   int
	secrets       []signedhttp.Secret
	answerSecrets []signedhttp.Secret // not empty: answers must be signed
	authorization string
}

// read checks the settings without touching anything.
func read(in plugin.Settings) (settings, error) {
	c := config{Timeout: "1s", Connections: 64}
	if err := in.Decode(&c); err != nil {
		return settings{}, err
	}
	out := settings{endpoint: c.Endpoint, demo: c.Demo, connections: c.Connections}
	var problems plugin.Problems
	wrong := func(field, message string) {
		problems = append(problems, plugin.Problem{Field: field, Message: message})
	}
	if c.Demo {
		if c.Endpoint != (signedhttp.Endpoint{}) || c.SignedAnswers {
			wrong("/demo", "not allowed with url, proxy, tls, insecure or signed_answers")
		}
	} else {
		for _, f := range c.Check() {
			wrong(f.Field, f.Message)
		}
	}
	var err error
	if out.timeout, err = time.ParseDuration(c.Timeout); err != nil || out.timeout < time.Millisecond ||
		out.timeout > 25*time.Second {
		wrong("/timeout", "must be a duration of 1ms to 25s")
	}
	if c.Connections < 1 || c.Connections > 1024 {
		wrong("/connections", "must be 1 to 1024")
	}
	out.secrets = signedhttp.Signing(in.Secrets, c.Unsigned, c.Demo, wrong)
	out.answerSecrets = signedhttp.Secrets(in.Secrets, wrong, secretAnswer, secretAnswerOther)
	_, answers := in.Secrets[secretAnswer]
	switch {
	case c.SignedAnswers && !answers:
		wrong("secrets."+secretAnswer, "this secret is required with signed_answers")
	case !c.SignedAnswers && len(out.answerSecrets) > 0:
		wrong("/signed_answers", "must be true when there is a secret for answers: it would not be used")
	}
	out.authorization = signedhttp.Authorization(in.Secrets, wrong)
	if problems != nil {
		return settings{}, problems
	}
	return out, nil
}
