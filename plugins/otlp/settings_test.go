package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/yett-dev/yett/plugins/internal/remote/remotetest"
	"github.com/yett-dev/yett/sdk/plugin"
)

func TestExampleRunsAsItIs(t *testing.T) { remotetest.ExampleRuns(t, newPlugin()) }

// The schema and the code know the same settings.
func TestSchemaHasEverySetting(t *testing.T) {
	remotetest.SchemaHas(t, schema, reflect.TypeFor[config]())
}

func TestBadSettings(t *testing.T) {
	pki := remotetest.NewPKI(t, "otlp.test")
	secret := "hush" + "hush"
	for _, c := range []struct{ config, headers, key, field, message string }{
		{`{}`, "", "", "/endpoint", "an http:// or https:// URL"},
		{`{"endpoint":"ftp://127.0.0.1"}`, "", "", "/endpoint", "an http:// or https:// URL"},
		{`{"endpoint":"http://u:p@127.0.0.1"}`, "", "", "/endpoint", "credentials go into the secret headers"},
		{`{"endpoint":"http://collector:4318"}`, "", "", "/endpoint", "in clear over the network"},
		{`{"endpoint":"http://10.0.0.1:4318"}`, "", "", "/endpoint", "in clear over the network"},
		{`{"endpoint":"http://127.0.0.1/x","protocol":"grpc"}`, "", "", "/endpoint", "over gRPC there is no path"},
		{`{"endpoint":"http://127.0.0.1","protocol":"udp"}`, "", "", "/protocol", "one of http, grpc"},
		{`{"endpoint":"http://127.0.0.1","compression":"zip"}`, "", "", "/compression", "one of gzip, none"},
		{`{"endpoint":"http://127.0.0.1","body":"raw"}`, "", "", "/body", "one of structured, text"},
		{`{"endpoint":"http://127.0.0.1","timeout":"1h"}`, "", "", "/timeout", "a duration of 10ms to 20s"},
		{`{"endpoint":"http://127.0.0.1","retry_for":"26s"}`, "", "", "/retry_for", "a duration of 0s to 25s"},
		{`{"endpoint":"http://127.0.0.1","retry_for":"25s"}`, "", "", "/retry_for", "together with timeout at most 28s"},
		{`{"endpoint":"http://127.0.0.1","max_request_bytes":1}`, "", "", "/max_request_bytes", "65536 to 67108864"},
		{`{"endpoint":"http://127.0.0.1","service_name":""}`, "", "", "/service_name", "1 to 256 bytes"},
		{`{"endpoint":"http://127.0.0.1","resource":{"yett.x":"y"}}`, "", "", "/resource", "yett.x is set by the plugin"},
		{`{"endpoint":"http://127.0.0.1","headers":{"Host":"y"}}`, "", "", "/headers", "Host belongs to the protocol"},
		{`{"endpoint":"http://127.0.0.1","headers":{"a b":"y"}}`, "", "", "/headers", "a name is not of"},
		{`{"endpoint":"http://127.0.0.1","headers":{"a":"y\n"}}`, "", "", "/headers", "the value of a is not of"},
		{`{"endpoint":"http://127.0.0.1","headers":{"a":"1"}}`, "A: " + secret, "", "secrets.headers", "A is given twice"},
		{`{"endpoint":"http://127.0.0.1"}`, secret, "", "secrets.headers", `at most 32 lines of "Name: value"`},
		{`{"endpoint":"http://127.0.0.1"}`, "a: é" + secret, "", "secrets.headers", "the value of a is not of"},
		{`{"endpoint":"http://127.0.0.1","tls":{}}`, "", "", "/tls", "need an https:// endpoint"},
		{`{"endpoint":"http://127.0.0.1"}`, "", pki.Key, "/tls", "need an https:// endpoint"},
		{`{"endpoint":"https://127.0.0.1","tls":{"ca":"x"}}`, "", "", "/tls/ca", "no certificate in PEM form"},
		{`{"endpoint":"https://127.0.0.1"}`, "", pki.Key, "/tls/cert", "needs both"},
		{`{"endpoint":"https://127.0.0.1","tls":{"cert":"x"}}`, "", pki.Key, "/tls/cert", "are not a pair"},
		{`{"endpoint":"http://127.0.0.1","Timeout":"5s"}`, "", "", "", ""},
		{`{"endpoint":"http://127.0.0.1","more":1}`, "", "", "", ""},
	} {
		secrets := map[string]string{}
		if c.headers != "" {
			secrets["headers"] = c.headers
		}
		if c.key != "" {
			secrets["tls_key"] = c.key
		}
		_, err := read(plugin.Settings{Config: json.RawMessage(c.config), Secrets: secrets})
		if err == nil {
			t.Errorf("%s %s was accepted", c.config, c.headers)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error quotes a secret: %v", c.config, err)
		}
		if problems, ok := err.(plugin.Problems); c.field != "" &&
			(!ok || len(problems) == 0 || problems[0].Field != c.field || !strings.Contains(problems[0].Message, c.message)) {
			t.Errorf("%s: %v", c.config, err)
		}
	}
}
