package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/plugins/internal/remote/remotetest"
	"github.com/yett-dev/yett/sdk/plugin"
	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

func TestMain(m *testing.M) {
	testkit.Prepare(testkit.Beside(8))
	goleak.VerifyTestMain(m)
}

const topic = "yett.audit"

func cluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func settings(c *kfake.Cluster, more map[string]any) map[string]any {
	s := map[string]any{"brokers": c.ListenAddrs(), "topic": topic, "timeout": "20s"}
	for k, v := range more {
		s[k] = v
	}
	return s
}

func loaded(t *testing.T, config map[string]any, secrets map[string]string) *plugintest.Client {
	t.Helper()
	p := plugintest.Load(t, newPlugin())
	if err := p.Configure(config, secrets); err != nil {
		t.Fatal(err)
	}
	return p
}

func line(i int, agent string) string {
	return fmt.Sprintf(`{"v":1,"seq":%d,"type":"decision","agent_id":%q,"args":{"n":12345678901234567890.5}}`, i, agent)
}

func lines(from, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = line(from+i, "agent-"+strconv.Itoa((from+i)%5))
	}
	return out
}

// drain reads everything that is in the topic.
func drain(t *testing.T, addrs []string, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addrs...), kgo.ConsumeTopics(topic)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	want, err := ends(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	var out []*kgo.Record
	for at := map[int32]int64{}; behind(at, want); {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			if at[r.Partition] = r.Offset + 1; !r.Attrs.IsControl() {
				out = append(out, r)
			}
		})
	}
	return out
}

func behind(at, want map[int32]int64) bool {
	for p, end := range want {
		if at[p] < end {
			return true
		}
	}
	return false
}

// ends are the offsets behind the last record of each partition.
func ends(ctx context.Context, cl *kgo.Client) (map[int32]int64, error) {
	req := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, one)
	meta, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	list := kmsg.NewPtrListOffsetsRequest()
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = topic
	for _, p := range meta.Topics[0].Partitions {
		lp := kmsg.NewListOffsetsRequestTopicPartition()
		lp.Partition, lp.Timestamp = p.Partition, -1
		lt.Partitions = append(lt.Partitions, lp)
	}
	list.Topics = append(list.Topics, lt)
	resp, err := list.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for _, p := range resp.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return nil, err
		}
		out[p.Partition] = p.Offset
	}
	return out, nil
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func TestRecordsArriveWholeAndInOrder(t *testing.T) {
	c := cluster(t, kfake.SeedTopics(3, topic))
	p := loaded(t, settings(c, nil), nil)
	log := plugintest.Log{StoreID: "sto_A"}
	var sent []plugin.Record
	for i := range 5 {
		b := log.Append(lines(1+i*100, 100)...)
		sent = append(sent, b.Records...)
		if at, err := p.Consume(t.Context(), b); err != nil || at != b.Last {
			t.Fatalf("acknowledged %d of %d: %v", at, b.Last, err)
		}
	}
	got := drain(t, c.ListenAddrs())
	if len(got) != len(sent) {
		t.Fatalf("%d records arrived, %d were sent", len(got), len(sent))
	}
	for i, r := range got {
		want := sent[i]
		if string(r.Value) != string(want.JSON) || string(r.Key) != "sto_A" || r.Partition != got[0].Partition ||
			header(r, "yett-seq") != strconv.FormatUint(want.Seq, 10) || header(r, "yett-store-id") != "sto_A" ||
			header(r, "yett-type") != "decision" || header(r, "yett-leaf-hash") != fmt.Sprintf("%x", want.Leaf) ||
			header(r, "content-type") != "application/json" || header(r, "yett-replay") != "" {
			t.Fatalf("record %d: %s %s %v", i, r.Key, r.Value, r.Headers)
		}
	}
}

func TestKeysKeepTheirOrder(t *testing.T) {
	c := cluster(t, kfake.SeedTopics(4, topic))
	p := loaded(t, settings(c, map[string]any{"key": "agent_id"}), nil)
	var log plugintest.Log
	if _, err := p.Consume(t.Context(), log.Append(lines(1, 200)...), log.Append(`{"type":"kill"}`)); err != nil {
		t.Fatal(err)
	}
	last, where := map[string]int{}, map[string]int32{}
	for _, r := range drain(t, c.ListenAddrs()) {
		key := string(r.Key)
		seq, _ := strconv.Atoi(header(r, "yett-seq"))
		if p, seen := where[key]; seen && p != r.Partition || seq <= last[key] {
			t.Fatalf("key %s: %d after %d in partition %d", key, seq, last[key], r.Partition)
		}
		last[key], where[key] = seq, r.Partition
	}
	if len(last) != 6 || last["test"] != 201 {
		t.Errorf("keys: %v", last)
	}
}

func TestGapAndReplay(t *testing.T) {
	c := cluster(t, kfake.SeedTopics(1, topic))
	p := loaded(t, settings(c, nil), nil)
	var log plugintest.Log
	b := log.Append(lines(1, 4)...)
	b.Gap, b.Records, b.Replay = &plugin.Gap{First: 2, Last: 3, Reason: "retention"},
		append(b.Records[:1:1], b.Records[3]), true
	alone := log.Append("{}", "{}")
	alone.Gap, alone.Records = &plugin.Gap{First: 5, Last: 6, Reason: "retention"}, nil
	if _, err := p.Consume(t.Context(), b, alone); err != nil {
		t.Fatal(err)
	}
	got := drain(t, c.ListenAddrs())
	if len(got) != 4 {
		t.Fatalf("%d records", len(got))
	}
	want := `{"type":"gap","store_id":"test","first_seq":2,"last_seq":3,"reason":"retention"}`
	if string(got[1].Value) != want || header(got[1], "yett-type") != "gap" || header(got[1], "yett-first-seq") != "2" ||
		header(got[1], "yett-last-seq") != "3" || header(got[0], "yett-replay") != "true" ||
		header(got[3], "yett-last-seq") != "6" {
		t.Errorf("%s %v", got[1].Value, got[1].Headers)
	}
}

// A record that is too large is named, what precedes it is in the topic, and what follows it is not: neither when our
// own limit refuses it nor when the topic's does.
func TestTooLargeRecord(t *testing.T) {
	large := fmt.Sprintf(`{"type":"decision","args":%q}`, strings.Repeat("x", 60_000))
	for name, c := range map[string]struct{ ours, topics string }{"ours": {"50000", "1000000"},
		"the topic's": {"1000000", "50000"}} {
		t.Run(name, func(t *testing.T) {
			fake := cluster(t)
			if err := fake.CreateTopic(topic, 1, map[string]string{"max.message.bytes": c.topics}); err != nil {
				t.Fatal(err)
			}
			p := loaded(t, settings(fake, map[string]any{"max_message_bytes": json.Number(c.ours), "compression": "none"}), nil)
			var log plugintest.Log
			b := log.Append(append(append(lines(1, 20), large), lines(22, 20)...)...)
			at, err := p.Consume(t.Context(), b)
			if err == nil || at != 20 || !strings.Contains(err.Error(), "record 21: refused") {
				t.Fatalf("acknowledged %d: %v", at, err)
			}
			got := drain(t, fake.ListenAddrs())
			if len(got) != 20 || header(got[19], "yett-seq") != "20" {
				t.Errorf("%d records are in the topic", len(got))
			}
			if err := p.Health(); err != nil {
				t.Errorf("a record at fault made the plugin unhealthy: %v", err)
			}
		})
	}
}

func TestFaultsOfBrokers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		err   *kerr.Error
		count int
		want  string // "": it passes within the time
	}{
		{"busy for a while", kerr.NotEnoughReplicas, 2, ""},
		{"written, but not by all", kerr.NotEnoughReplicasAfterAppend, 1, ""},
		{"timed out", kerr.RequestTimedOut, 1, ""},
		{"busy for ever", kerr.NotEnoughReplicas, -1, "have not acknowledged"},
		{"no right", kerr.TopicAuthorizationFailed, -1, "TOPIC_AUTHORIZATION_FAILED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fake := cluster(t, kfake.SeedTopics(1, topic))
			p := loaded(t, settings(fake, map[string]any{"timeout": "2s"}), nil)
			h := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: c.err, Count: c.count})
			var log plugintest.Log
			b := log.Append(lines(1, 50)...)
			at, err := p.Consume(t.Context(), b)
			if h.Hits() == 0 {
				t.Fatal("the fault was never met")
			}
			if c.want != "" {
				if err == nil || at != 0 || strings.Contains(err.Error(), "record ") || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("acknowledged %d: %v", at, err)
				}
				if p.Health() == nil {
					t.Error("the plugin says that it is healthy")
				}
				h.Remove()
				at, err = p.Consume(t.Context(), b)
			}
			if err != nil || at != 50 {
				t.Fatalf("acknowledged %d: %v", at, err)
			}
			checkOrder(t, drain(t, fake.ListenAddrs()), 50)
		})
	}
}

// checkOrder wants every number from 1 to n, each for the first time after all before it. It gives how many came again.
func checkOrder(t *testing.T, got []*kgo.Record, n int) (again int) {
	t.Helper()
	next := 1
	for _, r := range got {
		seq, err := strconv.Atoi(header(r, "yett-seq"))
		switch {
		case err != nil || seq > next:
			t.Fatalf("record %d comes before %d", seq, next)
		case seq == next:
			next++
		default:
			again++
		}
	}
	if next != n+1 {
		t.Fatalf("%d of %d records arrived", next-1, n)
	}
	return again
}

// When one record batch is refused for good, nothing behind it may be written, and what is before it is acknowledged:
// the host sends from it on again.
func TestNothingOvertakesAFailure(t *testing.T) {
	fake := cluster(t, kfake.SeedTopics(1, topic))
	p := loaded(t, settings(fake, map[string]any{"max_message_bytes": 16384, "compression": "none"}), nil)
	var log plugintest.Log
	b := log.Append(lines(1, 256)...) // several record batches
	n := 0
	h := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed,
		When: func(kmsg.Request) bool {
			n++
			return n == 3
		}})
	part, err := p.Consume(t.Context(), b)
	early := len(drain(t, fake.ListenAddrs()))
	if err == nil || !strings.Contains(err.Error(), "code = Unavailable") || h.Hits() != 1 || early == 0 || early > 250 ||
		int(part) != early {
		t.Fatalf("acknowledged %d of %d written after %d faults: %v", part, early, h.Hits(), err)
	}
	b.First, b.Records = part+1, b.Records[part:]
	if at, err := p.Consume(t.Context(), b); err != nil || at != 256 {
		t.Fatalf("acknowledged %d: %v", at, err)
	}
	if again := checkOrder(t, drain(t, fake.ListenAddrs()), 256); again != 0 {
		t.Errorf("%d came again", again)
	}
}

func TestTopicMustExist(t *testing.T) {
	fake := cluster(t)
	var log plugintest.Log
	b := log.Append(lines(1, 3)...)
	p := loaded(t, settings(fake, nil), nil)
	if at, err := p.Consume(t.Context(), b); err == nil || at != 0 ||
		!strings.Contains(err.Error(), "does not exist: make it, or set create") {
		t.Fatalf("acknowledged %d: %v", at, err)
	}
	if err := p.Health(); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("health: %v", err)
	}
	p = loaded(t, settings(fake, map[string]any{"create": true, "partitions": 2, "replication": 1,
		"max_message_bytes": 2_000_000}), nil)
	if at, err := p.Consume(t.Context(), b); err != nil || at != 3 {
		t.Fatalf("acknowledged %d: %v", at, err)
	}
	info := fake.TopicInfo(topic)
	if info == nil || len(fake.PartitionInfos(topic)) != 2 || info.Configs["max.message.bytes"] == nil ||
		*info.Configs["max.message.bytes"] != "2000000" {
		t.Errorf("made: %+v", info)
	}
}

// The brokers being away is no error of Configure; Health says so after the first batch, and finds out that they are
// back.
func TestBrokersAwayAndBack(t *testing.T) {
	t.Parallel()
	addr, port := remotetest.Reserve(t)
	p := loaded(t, map[string]any{"brokers": []string{addr}, "topic": topic, "timeout": "2s"}, nil)
	if err := p.Health(); err != nil {
		t.Fatalf("before the first batch: %v", err)
	}
	var log plugintest.Log
	b := log.Append(lines(1, 3)...)
	if at, err := p.Consume(t.Context(), b); err == nil || at != 0 || !strings.Contains(err.Error(), "refused") {
		t.Fatalf("acknowledged %d: %v", at, err)
	}
	if p.Health() == nil {
		t.Fatal("the plugin says that it is healthy")
	}
	second := cluster(t, kfake.SeedTopics(1, topic), kfake.Ports(port))
	for deadline := time.Now().Add(2 * time.Minute); p.Health() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("it never finds out that the brokers are back")
		}
	}
	if at, err := p.Consume(t.Context(), b); err != nil || at != 3 {
		t.Fatalf("acknowledged %d: %v", at, err)
	}
	checkOrder(t, drain(t, second.ListenAddrs()), 3)
}

func TestSASL(t *testing.T) {
	t.Parallel()
	pass := "pa" + "ss" + strconv.Itoa(len(topic))
	for _, m := range mechanisms {
		t.Run(m, func(t *testing.T) {
			t.Parallel()
			fake := cluster(t, kfake.SeedTopics(1, topic), kfake.EnableSASL(), kfake.Superuser(m, "yett", pass))
			config := func(timeout string) map[string]any {
				return settings(fake, map[string]any{"timeout": timeout, "sasl": map[string]any{"mechanism": m, "user": "yett"}})
			}
			var log plugintest.Log
			b := log.Append(lines(1, 3)...)
			if _, err := loaded(t, config("20s"), map[string]string{"sasl_password": pass}).Consume(t.Context(), b); err != nil {
				t.Errorf("%s: %v", m, err)
			}
			_, err := loaded(t, config("1s"), map[string]string{"sasl_password": pass + "?"}).Consume(t.Context(), b)
			if err == nil || strings.Contains(err.Error(), pass) {
				t.Errorf("%s with a wrong password: %v", m, err)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	pki := remotetest.NewPKI(t, "kafka.test")
	fake := cluster(t, kfake.SeedTopics(1, topic), kfake.TLS(pki.Mutual()))
	var log plugintest.Log
	b := log.Append(lines(1, 3)...)
	for name, c := range pki.Clients() {
		p := loaded(t, settings(fake, map[string]any{"tls": c.TLS, "timeout": "2s"}), c.Secrets())
		for tries := 1; ; tries++ { // on a slow machine the time is up before the handshake has come to its end
			_, err := p.Consume(t.Context(), b)
			if c.Want == "" && err == nil || c.Want != "" && err != nil && strings.Contains(err.Error(), c.Want) {
				break
			}
			if err == nil || tries == 20 {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}

func TestTransactions(t *testing.T) {
	fake := cluster(t)
	if err := fake.CreateTopic(topic, 1, map[string]string{"max.message.bytes": "50000"}); err != nil {
		t.Fatal(err)
	}
	p := loaded(t, settings(fake, map[string]any{"transactional_id": "yett-siem", "compression": "none"}), nil)
	var log plugintest.Log
	if at, err := p.Consume(t.Context(), log.Append(lines(1, 100)...)); err != nil || at != 100 {
		t.Fatalf("acknowledged %d: %v", at, err)
	}
	large := fmt.Sprintf(`{"args":%q}`, strings.Repeat("x", 60_000))
	b := log.Append(append(lines(101, 10), large)...)
	if at, err := p.Consume(t.Context(), b); err == nil || at != 110 {
		t.Fatalf("acknowledged %d: %v", at, err)
	}
	if again := checkOrder(t, drain(t, fake.ListenAddrs(), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords()), 110); again != 0 {
		t.Errorf("%d committed twice", again)
	}
}

// Validate and Configure leave no trace at the brokers.
func TestValidateConnectsNothing(t *testing.T) {
	fake := cluster(t, kfake.SeedTopics(1, topic))
	h := fake.Fault(kfake.Fault{Observe: true, Count: -1})
	p := plugintest.Load(t, newPlugin())
	if err := p.Validate(settings(fake, nil), nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Configure(settings(fake, nil), nil); err != nil {
		t.Fatal(err)
	}
	if h.Hits() != 0 {
		t.Errorf("%d requests", h.Hits())
	}
}

func TestConsumeEndsWithItsStream(t *testing.T) {
	fake := cluster(t, kfake.SeedTopics(1, topic))
	fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		return nil, nil, true // never answers
	})
	p := &producer{turn: make(chan struct{}, 1)}
	config, err := json.Marshal(settings(fake, map[string]any{"timeout": "28s"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.configure(t.Context(), plugin.Settings{Config: config,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var log plugintest.Log
	if err := p.consume(ctx, log.Append(lines(1, 10)...)); !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, kgo.ErrClientClosed) {
		t.Errorf("got %v", err)
	}
	if err := p.close(t.Context()); err != nil {
		t.Error(err)
	}
}
