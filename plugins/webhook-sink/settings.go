package main

import (
	"fmt"
	"time"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
	"github.com/yett-dev/yett/sdk/plugin"
)

// config is what operators write.
type config struct {
	signedhttp.Endpoint
	Demo     bool   `json:"demo"`
	Unsigned bool   `json:"unsigned"`
	Per      string `json:"per"`
	Timeout  string `json:"timeout"`
	RetryFor string `json:"retry_for"`
}

const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "oneOf": [
    {"required": ["url"], "properties": {"demo": {"const": false}}},
    {"required": ["demo"], "properties": {"demo": {"const": true}, "url": false, "proxy": false, "tls": false, "insecure": {"const": false}}}
  ],
  "properties": {` + signedhttp.EndpointSchema + `,
    "demo": {"type": "boolean", "default": false, "description": "post to a service inside the plugin that takes everything and keeps nothing"},
    "unsigned": {"type": "boolean", "default": false, "description": "send without a signature"},
    "per": {"enum": ["batch", "record"], "default": "batch"},
    "timeout": {"type": "string", "pattern": "` + signedhttp.DurationPattern + `", "maxLength": 32, "default": "10s", "description": "of one request, 100ms to 25s"},
    "retry_for": {"type": "string", "pattern": "` + signedhttp.DurationPattern + `", "maxLength": 32, "default": "20s", "description": "how long one batch is tried before it is given back, 0s to 25s"}
  }
}`

// settings are a config that holds.
type settings struct {
	endpoint          signedhttp.Endpoint
	demo, perRecord   bool
	timeout, retryFor time.Duration
	secrets           []signedhttp.Secret
	authorization     string
}

// read checks the settings without touching anything.
func read(in plugin.Settings) (settings, error) {
	c := config{Per: "batch", Timeout: "10s", RetryFor: "20s"}
	if err := in.Decode(&c); err != nil {
		return settings{}, err
	}
	out := settings{endpoint: c.Endpoint, demo: c.Demo, perRecord: c.Per == "record"}
	var problems plugin.Problems
	wrong := func(field, message string) {
		problems = append(problems, plugin.Problem{Field: field, Message: message})
	}
	if c.Demo {
		if c.Endpoint != (signedhttp.Endpoint{}) {
			wrong("/demo", "not allowed with url, proxy, tls or insecure")
		}
	} else {
		for _, f := range c.Check() {
			wrong(f.Field, f.Message)
		}
	}
	if c.Per != "batch" && c.Per != "record" {
		wrong("/per", "must be batch or record")
	}
	out.timeout = span(c.Timeout, "/timeout", 100*time.Millisecond, 25*time.Second, wrong)
	out.retryFor = span(c.RetryFor, "/retry_for", 0, 25*time.Second, wrong)
	out.secrets = signedhttp.Signing(in.Secrets, c.Unsigned, c.Demo, wrong)
	out.authorization = signedhttp.Authorization(in.Secrets, wrong)
	if problems != nil {
		return settings{}, problems
	}
	return out, nil
}

func span(text, field string, least, most time.Duration, wrong func(field, message string)) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		wrong(field, fmt.Sprintf("must be a duration of %s to %s", least, most))
	}
	return d
}
