package main

import (
	"time"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
	"github.com/yett-dev/yett/sdk/plugin"
)

// The names of the secrets.
const (
	secretSigning       = "signing"
	secretOther         = "signing_other"
	secretAnswer        = "answer_secret"
	secretAnswerOther   = "answer_secret_other"
	secretAuthorization = "authorization"
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
	out := settings{endpoint: c.Endpoint, demo: c.Demo, connections: c.Connections,
		authorization: in.Secrets[secretAuthorization]}
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
	secrets := func(names ...string) (list []signedhttp.Secret) {
		for _, name := range names {
			if text, given := in.Secrets[name]; given {
				s, err := signedhttp.ParseSecret(text)
				if err != nil {
					wrong("secrets."+name, err.Error())
				}
				list = append(list, s)
			}
		}
		return list
	}
	out.secrets, out.answerSecrets = secrets(secretSigning, secretOther), secrets(secretAnswer, secretAnswerOther)
	_, signed := in.Secrets[secretSigning]
	_, answers := in.Secrets[secretAnswer]
	switch {
	case c.Unsigned && len(out.secrets) > 0:
		wrong("/unsigned", "not allowed with signing secret")
	case !c.Unsigned && !c.Demo && !signed:
		wrong("secrets."+secretSigning, "this secret is required, or set unsigned: true")
	}
	switch {
	case c.SignedAnswers && !answers:
		wrong("secrets."+secretAnswer, "this secret is required with signed_answers")
	case !c.SignedAnswers && len(out.answerSecrets) > 0:
		wrong("/signed_answers", "must be true when there is a secret for answers: it would not be used")
	}
	if text, given := in.Secrets[secretAuthorization]; given {
		if why := signedhttp.CheckHeader(text); why != "" {
			wrong("secrets."+secretAuthorization, why)
		}
	}
	if problems != nil {
		return settings{}, problems
	}
	return out, nil
}
