package main

import (
	"crypto/tls"
	_ "embed"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/plugins/internal/remote"
	"github.com/yett-dev/yett/sdk/plugin"
)

//go:embed schema.json
var schema string

//go:embed example.json
var example string

// config is what operators write; schema.json describes it.
type config struct {
	Brokers         []string    `json:"brokers"`
	Topic           string      `json:"topic"`
	Demo            bool        `json:"demo"`
	Key             string      `json:"key"`
	Create          bool        `json:"create"`
	Partitions      int         `json:"partitions"`
	Replication     int         `json:"replication"`
	Compression     string      `json:"compression"`
	Timeout         string      `json:"timeout"`
	MaxMessage      int         `json:"max_message_bytes"`
	TransactionalID string      `json:"transactional_id"`
	AllowPlaintext  bool        `json:"allow_plaintext"`
	SASL            *saslConfig `json:"sasl"`
	TLS             *remote.TLS `json:"tls"`
}

type saslConfig struct {
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
}

// options are the settings as the code uses them.
type options struct {
	config
	timeout  time.Duration
	password string
	tls      *tls.Config // nil in clear
}

var (
	keys         = []string{"store_id", "agent_id", "session_id", "tool_id"}
	compressions = []string{"zstd", "lz4", "snappy", "gzip", "none"}
	mechanisms   = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
)

// checker collects what is wrong.
type checker struct{ problems plugin.Problems }

func (c *checker) add(field, message string) {
	c.problems = append(c.problems, plugin.Problem{Field: field, Message: message})
}

func (c *checker) oneOf(field, value string, allowed []string) {
	if !slices.Contains(allowed, value) {
		c.add(field, "one of "+strings.Join(allowed, ", "))
	}
}

func (c *checker) between(field string, value, low, high int) {
	if value < low || value > high {
		c.add(field, strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
}

// read makes options of settings. It opens and connects nothing. The error is Problems that name fields.
func read(s plugin.Settings) (*options, error) {
	o := &options{config: config{
		Key: "store_id", Partitions: 1, Replication: -1, Compression: "zstd", Timeout: "20s", MaxMessage: 1_000_012,
	}}
	if err := s.Decode(&o.config); err != nil {
		return nil, err
	}
	var c checker
	if o.Demo {
		c.demo(&o.config, s.Secrets)
	} else {
		c.brokers(&o.config)
		if !isTopic(o.Topic) {
			c.add("/topic", "1 to 249 letters, digits, . _ and -, and not . or ..")
		}
	}
	c.oneOf("/key", o.Key, keys)
	c.oneOf("/compression", o.Compression, compressions)
	c.between("/partitions", o.Partitions, 1, 10_000)
	c.between("/max_message_bytes", o.MaxMessage, 16<<10, 8<<20)
	if o.Replication != -1 {
		c.between("/replication", o.Replication, 1, 32)
	}
	if len(o.TransactionalID) > 249 {
		c.add("/transactional_id", "at most 249 bytes")
	}
	var err error
	if o.timeout, err = time.ParseDuration(o.Timeout); err != nil || o.timeout < 100*time.Millisecond ||
		o.timeout > 28*time.Second {
		c.add("/timeout", `a duration of 100ms to 28s, such as "20s"`)
	}
	c.sasl(o.SASL, s.Secrets["sasl_password"])
	o.password = s.Secrets["sasl_password"]
	o.tls = c.tls(o.TLS, s.Secrets["tls_key"])
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	return o, nil
}

func (c *checker) demo(cfg *config, secrets map[string]string) {
	if len(cfg.Brokers) > 0 || cfg.Topic != "" || cfg.SASL != nil || cfg.TLS != nil || cfg.TransactionalID != "" ||
		cfg.Create || len(secrets) > 0 {
		c.add("/demo", "not allowed with brokers, topic, create, transactional_id, sasl, tls or secrets: nothing is sent")
	}
}

func isTopic(name string) bool {
	return name != "" && len(name) <= 249 && name != "." && name != ".." &&
		!strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
		})
}

func (c *checker) brokers(cfg *config) {
	if len(cfg.Brokers) == 0 || len(cfg.Brokers) > 16 {
		c.add("/brokers", "1 to 16 addresses")
	}
	for i, b := range cfg.Brokers {
		field := "/brokers/" + strconv.Itoa(i)
		host, port, err := net.SplitHostPort(b)
		n, notNumber := strconv.ParseUint(port, 10, 16)
		switch {
		case err != nil || host == "" || notNumber != nil || n == 0 || len(b) > 260:
			c.add(field, `host:port, such as "kafka-1.example.net:9093"`)
		case cfg.TLS == nil && !cfg.AllowPlaintext && !remote.Loopback(host):
			c.add(field, "without tls the log goes over the network in clear: give tls (an empty object will do), or set "+
				"allow_plaintext")
		}
	}
}

func (c *checker) sasl(s *saslConfig, password string) {
	if s == nil {
		if password != "" {
			c.add("secrets.sasl_password", "it needs the setting sasl")
		}
		return
	}
	c.oneOf("/sasl/mechanism", s.Mechanism, mechanisms)
	if s.User == "" || len(s.User) > 256 {
		c.add("/sasl/user", "1 to 256 bytes")
	}
	if password == "" {
		c.add("secrets.sasl_password", "this secret is required with sasl")
	}
}

func (c *checker) tls(t *remote.TLS, key string) *tls.Config {
	if t == nil {
		if key != "" {
			c.add("secrets.tls_key", "it needs the setting tls")
		}
		return nil
	}
	return t.Client(key, c.add)
}
