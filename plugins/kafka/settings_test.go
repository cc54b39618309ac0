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
	pki := remotetest.NewPKI(t, "kafka.test")
	secret := "hush" + "hush"
	const good = `"brokers":["127.0.0.1:9092"],"topic":"t"`
	for _, c := range []struct{ config, password, key, field, message string }{
		{`{}`, "", "", "/brokers", "1 to 16 addresses"},
		{`{"brokers":["kafka"],"topic":"t"}`, "", "", "/brokers/0", "host:port"},
		{`{"brokers":["127.0.0.1:0"],"topic":"t"}`, "", "", "/brokers/0", "host:port"},
		{`{"brokers":["127.0.0.1:9092","kafka:9092"],"topic":"t"}`, "", "", "/brokers/1", "in clear"},
		{`{"brokers":["127.0.0.1:9092"],"topic":"a b"}`, "", "", "/topic", "1 to 249"},
		{`{"brokers":["127.0.0.1:9092"],"topic":".."}`, "", "", "/topic", "not . or .."},
		{`{` + good + `,"key":"seq"}`, "", "", "/key", "one of store_id"},
		{`{` + good + `,"compression":"rar"}`, "", "", "/compression", "one of zstd"},
		{`{` + good + `,"partitions":0}`, "", "", "/partitions", "1 to 10000"},
		{`{` + good + `,"replication":0}`, "", "", "/replication", "1 to 32"},
		{`{` + good + `,"max_message_bytes":1}`, "", "", "/max_message_bytes", "16384 to 8388608"},
		{`{` + good + `,"timeout":"29s"}`, "", "", "/timeout", "100ms to 28s"},
		{`{` + good + `,"transactional_id":"` + strings.Repeat("x", 250) + `"}`, "", "", "/transactional_id", "at most 249 bytes"},
		{`{` + good + `,"sasl":{"mechanism":"GSSAPI","user":"u"}}`, secret, "", "/sasl/mechanism", "one of PLAIN"},
		{`{` + good + `,"sasl":{"mechanism":"PLAIN","user":""}}`, secret, "", "/sasl/user", "1 to 256 bytes"},
		{`{` + good + `,"sasl":{"mechanism":"PLAIN","user":"u"}}`, "", "", "secrets.sasl_password", "required with sasl"},
		{`{` + good + `}`, secret, "", "secrets.sasl_password", "needs the setting sasl"},
		{`{` + good + `}`, "", pki.Key, "secrets.tls_key", "needs the setting tls"},
		{`{` + good + `,"tls":{"ca":"x"}}`, "", "", "/tls/ca", "no certificate in PEM form"},
		{`{` + good + `,"tls":{}}`, "", pki.Key, "/tls/cert", "needs both"},
		{`{` + good + `,"tls":{"cert":"x"}}`, "", pki.Key, "/tls/cert", "are not a pair"},
		{`{` + good + `,"Key":"agent_id"}`, "", "", "", ""},
		{`{` + good + `,"more":1}`, "", "", "", ""},
	} {
		secrets := map[string]string{}
		if c.password != "" {
			secrets["sasl_password"] = c.password
		}
		if c.key != "" {
			secrets["tls_key"] = c.key
		}
		_, err := read(plugin.Settings{Config: json.RawMessage(c.config), Secrets: secrets})
		if err == nil {
			t.Errorf("%s was accepted", c.config)
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
