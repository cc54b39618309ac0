// Package plugintest loads a plugin into a test, over the same gRPC services that the gateway uses, in one process. It
// owns the connection and the wire form on the host's side; nothing is started, no file is left. What a test gets back
// is what the gateway would get: a verdict that breaks a rule is an error here too. Only Info.ConfigSchema is not
// applied: what it alone forbids gets as far as Validate. It does not replace `yett plugin conform`, which tries the
// program itself: its start, its end and what it does to its surroundings.
package plugintest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

const (
	patience = 10 * time.Second // for calls whose context has no deadline
	buffer   = 1 << 20
)

// Client is the host's side of one loaded plugin. Its methods are safe for concurrent use.
type Client struct {
	t          testing.TB
	plugin     pluginv1.PluginClient
	authorizer pluginv1.AuthorizerClient
	scanner    pluginv1.ScannerClient
	subscriber pluginv1.SubscriberClient

	mu     sync.Mutex
	lastID uint64
	stream *checks // opened by the first Check
}

// Load serves the plugins until the test ends, then drains them as SIGTERM would. What Serve refuses fails the test at
// once.
func Load(t testing.TB, p plugin.Plugin, more ...plugin.Plugin) *Client {
	t.Helper()
	l := bufconn.Listen(buffer)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- plugin.ServeListener(ctx, l, p, more...) }()
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	c := &Client{
		t: t, plugin: pluginv1.NewPluginClient(conn), authorizer: pluginv1.NewAuthorizerClient(conn),
		scanner: pluginv1.NewScannerClient(conn), subscriber: pluginv1.NewSubscriberClient(conn),
	}
	stop := func() error {
		cancel()
		c.closeStream()
		_ = conn.Close()
		return <-served
	}
	short, end := context.WithTimeout(ctx, patience)
	defer end()
	if _, err := c.plugin.Info(short, &pluginv1.InfoRequest{ApiVersions: []uint32{plugin.ProtocolVersion}}); err != nil {
		t.Fatalf("the plugin is not served: %v", first(stop(), err))
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the plugin did not end well: %v", err)
		}
	})
	return c
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Info asks the plugin what it is.
func (c *Client) Info() plugin.Info {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := c.plugin.Info(ctx, &pluginv1.InfoRequest{ApiVersions: []uint32{plugin.ProtocolVersion}})
	if err != nil {
		c.t.Fatal(err)
	}
	out := plugin.Info{
		Name: m.GetName(), Version: m.GetVersion(), Description: m.GetDescription(), ConfigSchema: m.GetConfigSchema(),
		ExampleConfig: m.GetExampleConfig(), CacheKeyFields: m.GetCapabilities().GetCacheKeyFields(),
		MaxInFlight: int(m.GetCapabilities().GetMaxInFlight()),
	}
	for _, s := range m.GetSecrets() {
		out.Secrets = append(out.Secrets, plugin.Secret{Name: s.GetName(), Required: s.GetRequired(),
			Description: s.GetDescription()})
	}
	for _, f := range m.GetFindings() {
		out.Findings = append(out.Findings, plugin.FindingKind{Kind: f.GetKind(), Description: f.GetDescription()})
	}
	return out
}

// Validate asks what is wrong with settings, as the host does for settings that are not to come into force. config is a
// JSON text (string, []byte, json.RawMessage) or anything that encoding/json makes an object of; nil is {}. What the
// plugin names comes back as plugin.Problems.
func (c *Client) Validate(config any, secrets map[string]string) error {
	c.t.Helper()
	return c.configure(config, secrets, true)
}

// Configure puts settings into force; config and the error are as Validate's. It must come before the first Check, Scan
// or Consume, and succeeds once.
func (c *Client) Configure(config any, secrets map[string]string) error {
	c.t.Helper()
	return c.configure(config, secrets, false)
}

func (c *Client) configure(config any, secrets map[string]string, validate bool) error {
	c.t.Helper()
	req := &pluginv1.ConfigureRequest{ValidateOnly: validate, Instance: c.t.Name(), Generation: "test",
		Secrets: map[string]string{}}
	switch v := config.(type) {
	case nil:
		req.Config = []byte("{}")
	case string:
		req.Config = []byte(v)
	case []byte:
		req.Config = v
	case json.RawMessage:
		req.Config = v
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		req.Config = b
	}
	dir := c.t.TempDir()
	for name, value := range secrets {
		path := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256([]byte(name))))
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
			return err
		}
		req.Secrets[name] = path
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := c.plugin.Configure(ctx, req)
	if err != nil {
		return err
	}
	var problems plugin.Problems
	for _, p := range m.GetProblems() {
		problems = append(problems, plugin.Problem{Field: p.GetField(), Message: p.GetMessage()})
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// Health is nil while the plugin says that it serves.
func (c *Client) Health() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := c.plugin.Health(ctx, &pluginv1.HealthRequest{IntervalMs: 60_000})
	if err != nil {
		return err
	}
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	if m.GetStatus() != pluginv1.HealthResponse_STATUS_SERVING {
		return fmt.Errorf("%s: %s", m.GetStatus(), m.GetDetail())
	}
	return nil
}

// Scan gives one text to the scanner. The deadline is ctx's, or 10 s.
func (c *Client) Scan(ctx context.Context, t *plugin.Text) ([]sdk.Finding, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	deadline, _ := ctx.Deadline()
	m, err := c.scanner.Scan(ctx, &pluginv1.ScanRequest{
		Id: c.id(), DeadlineUnixNano: deadline.UnixNano(), Generation: t.Generation, Text: []byte(t.Text), ToolId: t.ToolID,
		AgentId: t.AgentID, ContentType: t.ContentType,
	})
	if err != nil {
		return nil, err
	}
	if m.GetError() != "" {
		return nil, fmt.Errorf("scan: %s", m.GetError())
	}
	out := make([]sdk.Finding, len(m.GetFindings()))
	for i, f := range m.GetFindings() {
		out[i] = sdk.Finding{
			// #nosec G115 -- the SDK has checked them
			Kind: f.GetKind(), Start: int(f.GetStart()), End: int(f.GetEnd()), Confidence: f.GetConfidence(),
			Severity:  sdk.Severity(f.GetSeverity() - pluginv1.Finding_SEVERITY_INFO), // #nosec G115 -- likewise
			Suggested: sdk.Action(f.GetSuggested()), Replacement: f.GetReplacement(),  // #nosec G115 -- likewise
		}
	}
	return out, nil
}

// Consume sends batches on one stream, as the host does after a start, and waits for the acknowledgement of the last
// one or of an error. acknowledged is how far the subscriber has come, also before an error: what is behind it would
// come again. The error of a *plugin.RecordError and of a panic begins with "consume: "; any other one is a gRPC
// status, UNAVAILABLE where the subscriber says that it can take in nothing now.
func (c *Client) Consume(ctx context.Context, batches ...*plugin.Batch) (acknowledged uint64, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	stream, err := c.subscriber.Consume(ctx)
	if err != nil {
		return 0, err
	}
	for _, b := range batches {
		_ = stream.Send(batchOf(b))                               // when it fails, Recv says why
		for done := false; !done; done = acknowledged >= b.Last { // in parts, when an outage cut it
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("consume: the stream ended before records %d to %d were acknowledged", b.First, b.Last)
			}
			if err != nil {
				return acknowledged, err
			}
			acknowledged = max(acknowledged, m.GetSeq())
			if m.GetError() != "" {
				return acknowledged, fmt.Errorf("consume: %s", m.GetError())
			}
		}
	}
	if err := stream.CloseSend(); err != nil {
		return acknowledged, err
	}
	if m, err := stream.Recv(); err == nil {
		return acknowledged, fmt.Errorf("consume: an acknowledgement of %d too many", m.GetSeq())
	} else if !errors.Is(err, io.EOF) {
		return acknowledged, err
	}
	return acknowledged, nil
}

func (c *Client) id() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	return c.lastID
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, patience)
}
