package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// conn is one client of the cluster with its producer id. One goroutine's at a time.
type conn struct {
	client *kgo.Client
	fresh  bool // nothing was produced with it yet

	once sync.Once // of close

	mu   sync.Mutex
	last error // why the last connection to a broker failed; nil after one that did not
}

// dial makes a client. It connects nothing yet.
func dial(o *options) (*conn, error) {
	c := &conn{fresh: true}
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...), kgo.ClientID("yett-kafka"), kgo.SoftwareNameAndVersion("yett-kafka", version),
		kgo.DefaultProduceTopic(o.Topic), kgo.DefaultProduceTopicAlways(),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ManualFlushing(),
		kgo.ProducerBatchMaxBytes(int32(o.MaxMessage)),
		kgo.ProducerBatchCompression(codec(o.Compression), kgo.NoCompression()),
		kgo.MaxBufferedRecords(1024), kgo.MaxBufferedBytes(2 * o.MaxMessage),
		kgo.DialTimeout(dialTimeout), kgo.RetryTimeout(o.timeout), kgo.MetadataMinAge(metadataAge),
		kgo.DisableClientMetrics(), kgo.WithHooks(c),
	}
	if o.tls != nil {
		opts = append(opts, kgo.DialTLSConfig(o.tls))
	}
	if o.SASL != nil {
		opts = append(opts, kgo.SASL(mechanism(o)))
	}
	if o.TransactionalID != "" {
		opts = append(opts, kgo.TransactionalID(o.TransactionalID), kgo.TransactionTimeout(time.Minute))
	}
	var err error
	if c.client, err = kgo.NewClient(opts...); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return c, nil
}

// metadataAge is how soon the client asks again where a partition's leader is: a record that has to be tried again
// waits for it.
const metadataAge = 250 * time.Millisecond

func codec(name string) kgo.CompressionCodec {
	switch name {
	case "lz4":
		return kgo.Lz4Compression()
	case "snappy":
		return kgo.SnappyCompression()
	case "gzip":
		return kgo.GzipCompression()
	case "none":
		return kgo.NoCompression()
	default:
		return kgo.ZstdCompression()
	}
}

func mechanism(o *options) sasl.Mechanism {
	switch o.SASL.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: o.SASL.User, Pass: o.password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: o.SASL.User, Pass: o.password}.AsSha512Mechanism()
	default:
		return plain.Auth{User: o.SASL.User, Pass: o.password}.AsMechanism()
	}
}

// close fails what is still on its way. It may be called more than once.
func (c *conn) close() { c.once.Do(c.client.Close) }

// OnBrokerConnect remembers why brokers cannot be reached: the errors of requests only say that the time was over.
func (c *conn) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		err = fmt.Errorf("connect to %s:%d: %w", meta.Host, meta.Port, err)
	}
	c.mu.Lock()
	c.last = err
	c.mu.Unlock()
}

// explain adds to err why brokers cannot be reached.
func (c *conn) explain(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || strings.Contains(err.Error(), errors.Unwrap(c.last).Error()) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, c.last)
}

// topic finds out whether the topic is there, and makes it if the settings say so.
func (c *conn) topic(ctx context.Context, o *options) error {
	adm := kadm.NewClient(c.client)
	topics, err := adm.ListTopics(ctx, o.Topic)
	if err == nil {
		err = topics[o.Topic].Err
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("look for the topic %q: %w", o.Topic, err)
	case !o.Create:
		return fmt.Errorf("the topic %q does not exist: make it, or set create", o.Topic)
	}
	configs := map[string]*string{}
	if o.MaxMessage > defaultMaxMessage {
		configs["max.message.bytes"] = kadm.StringPtr(fmt.Sprint(o.MaxMessage))
	}
	_, err = adm.CreateTopic(ctx, int32(o.Partitions), int16(o.Replication), configs, o.Topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("make the topic %q: %w", o.Topic, err)
	}
	return nil
}

// defaultMaxMessage is a broker's max.message.bytes unless its operator says otherwise.
const defaultMaxMessage = 1_048_588

// send produces items and waits for all of them. Of those that failed it names the first. When ctx ends it closes the
// client, which fails what is still on its way: whether that was written nobody knows.
func (c *conn) send(ctx context.Context, items []item) (uint64, error) {
	results := make([]error, len(items))
	var left sync.WaitGroup
	left.Add(len(items))
	for i := range items {
		// a copy, since the client fills in and a group may be sent again in halves
		rec := *items[i].rec
		rec.Timestamp = time.Time{}
		c.client.Produce(ctx, &rec, func(_ *kgo.Record, err error) {
			results[i] = err
			left.Done()
		})
	}
	if err := c.client.Flush(ctx); err != nil {
		c.close()
		left.Wait()
		return items[0].seq, fmt.Errorf("the brokers have not acknowledged: %w", err)
	}
	left.Wait()
	for i, err := range results {
		if err != nil {
			return items[i].seq, fmt.Errorf("produce: %w", err)
		}
	}
	return 0, nil
}
