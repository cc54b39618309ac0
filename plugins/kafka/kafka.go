package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/yett-dev/yett/plugins/internal/remote"
	"github.com/yett-dev/yett/sdk/plugin"
)

const version = "1.0.0"

// producer is the plugin's state. Configure fills it before the first Consume.
type producer struct {
	o     *options
	probe *remote.Probe

	turn  chan struct{} // holds one: whoever has it may use what is below
	conn  *conn         // nil: none yet, or the last one was given up
	in    int           // how many items of the batch the brokers have acknowledged
	ended bool
}

func newPlugin() plugin.Subscriber {
	p := &producer{turn: make(chan struct{}, 1)}
	return plugin.Subscriber{
		Info: plugin.Info{
			Name: "kafka", Version: version, Description: "Sends the audit log to a Kafka topic.",
			ConfigSchema: schema, ExampleConfig: example,
			Secrets: []plugin.Secret{
				{Name: "sasl_password", Description: "password of sasl.user"},
				{Name: "tls_key", Description: "private key of tls.cert, PEM"},
			},
		},
		Validate:  p.validate,
		Configure: p.configure,
		Consume:   p.consume,
		Health:    p.health,
		Close:     p.close,
	}
}

func (p *producer) validate(_ context.Context, s plugin.Settings) error {
	_, err := read(s)
	return err
}

// configure connects nothing: the first batch does.
func (p *producer) configure(_ context.Context, s plugin.Settings) error {
	o, err := read(s)
	if err != nil {
		return err
	}
	if o.Demo {
		s.Log.Warn("demo: records are taken in and kept nowhere")
	}
	p.o = o
	p.probe = remote.StartProbe(p.ask)
	return nil
}

// consume produces one batch and waits for the brokers' acknowledgements. After an error that is no *plugin.RecordError
// the connection is given up: the next one begins with a new producer id and no state. What the brokers acknowledged
// before it is not produced again, which a *plugin.Later says; a transaction is produced whole or not at all.
func (p *producer) consume(ctx context.Context, b *plugin.Batch) error {
	items, err := p.o.items(b)
	if err != nil || p.o.Demo {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.timeout)
	defer cancel()
	if !p.acquireTurn(ctx) {
		return errors.New("the time is over: the connection is being tried")
	}
	defer p.releaseTurn()
	err = p.produce(ctx, items)
	var refused *plugin.RecordError
	if err == nil || errors.As(err, &refused) {
		p.probe.Set(nil)
		return err
	}
	if p.conn != nil {
		err = p.conn.explain(err)
	}
	p.drop()
	p.probe.Set(err)
	if p.o.TransactionalID == "" && p.in > 0 && p.in < len(items) {
		return &plugin.Later{Seq: items[p.in].seq, Err: err}
	}
	return err
}

func (p *producer) produce(ctx context.Context, items []item) error {
	p.in = 0
	if err := p.connect(ctx); err != nil {
		return err
	}
	if p.o.TransactionalID == "" {
		return p.groups(ctx, items)
	}
	err := p.transaction(ctx, items)
	var refused *plugin.RecordError
	if !errors.As(err, &refused) {
		return err
	}
	for i := range items { // what precedes the refused record was aborted with it
		if items[i].seq == refused.Seq && i > 0 {
			if err := p.transaction(ctx, items[:i]); err != nil {
				return err
			}
		}
	}
	return refused
}

// transaction produces all items or none.
func (p *producer) transaction(ctx context.Context, items []item) error {
	if err := p.conn.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	if err := p.groups(ctx, items); err != nil {
		if end := p.conn.client.EndTransaction(ctx, kgo.TryAbort); end != nil {
			return fmt.Errorf("%s; then: abort a transaction: %w", err.Error(), end)
		}
		return err
	}
	if err := p.conn.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("commit a transaction: %w", err)
	}
	return nil
}

// groups produces the items in parts that fit into one record batch each, one after the other. A record batch is
// written whole or not at all, so nothing overtakes a record that failed.
func (p *producer) groups(ctx context.Context, items []item) error {
	for len(items) > 0 {
		n, size := 0, 128
		for n < len(items) && (n == 0 || size+weight(items[n].rec) <= p.o.MaxMessage) {
			size += weight(items[n].rec)
			if n++; p.conn.fresh {
				break // until the client knows the topic's partitions it might cut a group in two
			}
		}
		if err := p.group(ctx, items[:n]); err != nil {
			return err
		}
		p.conn.fresh = false
		items = items[n:]
	}
	return nil
}

// group produces items as one, and in halves when the broker refuses them, until the item at fault stands alone.
func (p *producer) group(ctx context.Context, items []item) error {
	seq, err := p.conn.send(ctx, items)
	switch {
	case err == nil:
		p.in += len(items)
		return nil
	case !isRecords(err):
		return err
	case len(items) == 1:
		return &plugin.RecordError{Seq: seq, Err: fmt.Errorf("refused: %w", err)}
	}
	half := len(items) / 2
	if err := p.group(ctx, items[:half]); err != nil {
		return err
	}
	return p.group(ctx, items[half:])
}

// isRecords is true for errors that lie in the records, not in the cluster, the topic or our rights.
func isRecords(err error) bool {
	for _, e := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// acquireTurn waits for the turn; false when ctx ended first or the plugin is closed.
func (p *producer) acquireTurn(ctx context.Context) bool {
	select {
	case p.turn <- struct{}{}:
		if p.ended {
			<-p.turn
			return false
		}
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *producer) releaseTurn() { <-p.turn }

// connect makes a connection if there is none, and tries until ctx ends when brokers cannot be reached. The caller has
// the turn.
func (p *producer) connect(ctx context.Context) error {
	for pause := firstPause; p.conn == nil; pause = min(2*pause, maxPause) {
		c, err := dial(p.o)
		if err != nil {
			return err
		}
		if err = c.topic(ctx, p.o); err == nil {
			p.conn = c
			return nil
		}
		c.close()
		err = c.explain(err)
		if !passes(err) || !remote.Sleep(ctx, pause) {
			return err
		}
	}
	return nil
}

// passes is true for errors of the network and for those that a cluster calls temporary.
func passes(err error) bool {
	var network net.Error
	return kerr.IsRetriable(err) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, kgo.ErrClientClosed)
}

func (p *producer) drop() {
	if p.conn != nil {
		p.conn.close()
		p.conn = nil
	}
}

// ask finds out whether the brokers are back.
func (p *producer) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if !p.acquireTurn(ctx) {
		return p.probe.State() // a batch is at it, and says more than we could
	}
	defer p.releaseTurn()
	return p.connect(ctx)
}

func (p *producer) health() error { return p.probe.State() }

// close has nothing to flush: a batch is acknowledged only when all of it is at the brokers.
func (p *producer) close(ctx context.Context) error {
	if p.o == nil {
		return nil
	}
	p.probe.Stop()
	if !p.acquireTurn(ctx) {
		return errors.New("a batch is still being produced")
	}
	defer p.releaseTurn()
	p.drop()
	p.ended = true
	return nil
}

const (
	firstPause  = 100 * time.Millisecond // between attempts to connect, doubling
	maxPause    = 2 * time.Second
	askTimeout  = 5 * time.Second
	dialTimeout = 5 * time.Second
)
