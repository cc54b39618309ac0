package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/yett-dev/yett/plugins/internal/remote"
	"github.com/yett-dev/yett/sdk/plugin"
)

const version = "1.0.0"

// exporter is the plugin's state. Configure fills it before the first Consume.
type exporter struct {
	o     *options
	to    sender
	log   *slog.Logger
	probe *remote.Probe

	mu        sync.Mutex
	notBefore time.Time // a receiver asked to be left alone until then
}

func newPlugin() plugin.Subscriber {
	e := &exporter{}
	return plugin.Subscriber{
		Info: plugin.Info{
			Name: "otlp", Version: version,
			Description:  "Sends the audit log as OpenTelemetry logs over OTLP/HTTP or OTLP/gRPC.",
			ConfigSchema: schema, ExampleConfig: example,
			Secrets: []plugin.Secret{
				{Name: "headers", Description: `request headers, one "Name: value" a line, such as Authorization`},
				{Name: "tls_key", Description: "private key of tls.cert, PEM"},
			},
		},
		Validate:  e.validate,
		Configure: e.configure,
		Consume:   e.consume,
		Health:    e.health,
		Close:     e.close,
	}
}

func (e *exporter) validate(_ context.Context, s plugin.Settings) error {
	_, err := read(s)
	return err
}

// configure makes the sender. Nothing is connected before the first batch.
func (e *exporter) configure(_ context.Context, s plugin.Settings) error {
	o, err := read(s)
	if err != nil {
		return err
	}
	to, err := newSender(o)
	if err != nil {
		return err
	}
	if o.demo {
		s.Log.Warn("demo: records are taken in and kept nowhere")
	}
	e.o, e.to, e.log = o, to, s.Log
	e.probe = remote.StartProbe(e.ask)
	return nil
}

func newSender(o *options) (sender, error) {
	if o.demo {
		return demo{}, nil
	}
	if o.grpc {
		return newGRPC(o)
	}
	return newHTTP(o), nil
}

// demo is a receiver inside the plugin that takes everything in and keeps nothing.
type demo struct{}

func (demo) send(context.Context, *collogspb.ExportLogsServiceRequest) (int64, string, *failure) {
	return 0, "", nil
}

func (demo) close() error { return nil }

// consume sends one batch. An error that is no *plugin.RecordError is the receiver's or the network's: what was not
// taken in comes again, all of it unless a *plugin.Later says what was.
func (e *exporter) consume(ctx context.Context, b *plugin.Batch) error {
	// however many parts there are: the host would hold its silence against a record
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	now := time.Now()
	until := now.Add(e.o.retryFor)
	if wait := e.pause(now); wait > 0 {
		if wait > e.o.retryFor || !remote.Sleep(ctx, wait) {
			return fmt.Errorf("the receiver asked to be left alone for another %v", wait.Round(time.Second))
		}
	}
	d := delivery{o: e.o, to: e.to, store: b.StoreID, until: until, warn: func(m string) {
		e.log.Warn("the receiver took the records in and warns", "message", clip(m), "first_seq", b.First, "last_seq", b.Last)
	}}
	err := d.push(ctx, e.o.items(b, now))
	e.learn(err)
	return err
}

// pause is how long the receiver still wants to be left alone.
func (e *exporter) pause(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.notBefore.Sub(now)
}

// learn keeps what the outcome says about the receiver: a refused record is the record's fault, the rest the
// receiver's.
func (e *exporter) learn(err error) {
	var f *failure
	if !errors.As(err, &f) {
		e.probe.Set(nil)
		return
	}
	e.probe.Set(f.err)
	if f.after > 0 {
		e.mu.Lock()
		e.notBefore = time.Now().Add(min(f.after, maxAfter))
		e.mu.Unlock()
	}
}

// ask finds out whether the receiver is back, with a request that carries no records. That it refuses such a request
// says that it is there.
func (e *exporter) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.o.timeout)
	defer cancel()
	if wait := e.pause(time.Now()); wait > 0 {
		return fmt.Errorf("the receiver asked to be left alone for another %v", wait.Round(time.Second))
	}
	_, _, err := e.to.send(ctx, &collogspb.ExportLogsServiceRequest{})
	if err != nil && err.verdict != refuse {
		return err.err
	}
	return nil
}

func (e *exporter) health() error { return e.probe.State() }

func (e *exporter) close(context.Context) error {
	if e.to == nil {
		return nil
	}
	e.probe.Stop()
	return e.to.close()
}

func (o *options) scope() *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{Name: "yett.audit", Version: version}
}

func (o *options) resourceOf(store string) *resourcepb.Resource {
	out := &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
		attr("service.name", text(o.service)), attr("service.instance.id", text(store)), attr("yett.store_id", text(store)),
	}}
	names := make([]string, 0, len(o.resource))
	for name := range o.resource {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out.Attributes = append(out.Attributes, attr(name, text(o.resource[name])))
	}
	return out
}
