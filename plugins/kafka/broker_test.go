package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/yett-dev/yett/plugins/internal/remote/remotetest"
	"github.com/yett-dev/yett/sdk/plugin"
	"github.com/yett-dev/yett/sdk/plugin/plugintest"
)

// broker is Apache Kafka's own, from its jars, on this machine's Java.
type broker struct {
	t          *testing.T
	jars, dir  string
	addr       string
	properties string
	cmd        *exec.Cmd
	log        *os.File
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	if os.Getenv("YETT_KAFKA") == "" {
		t.Skip("set YETT_KAFKA=1 to run against Apache Kafka: it needs Java 17, Maven and its central repository")
	}
	b := &broker{t: t, jars: jars(t), dir: t.TempDir(), addr: "127.0.0.1:" + port(t)}
	fixed, err := os.ReadFile("testdata/broker/server.properties")
	if err != nil {
		t.Fatal(err)
	}
	controller := "127.0.0.1:" + port(t)
	more := fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s\ncontroller.quorum.bootstrap.servers=%s\nlog.dirs=%s\n",
		b.addr, controller, controller, filepath.Join(b.dir, "data"))
	b.properties = filepath.Join(b.dir, "server.properties")
	if err := os.WriteFile(b.properties, append(fixed, more...), 0o600); err != nil {
		t.Fatal(err)
	}
	if b.log, err = os.Create(filepath.Join(b.dir, "broker.log")); err != nil {
		t.Fatal(err)
	}
	if out, err := b.java("kafka.tools.StorageTool", "format", "-t", "eWV0dC10ZXN0LWJyb2tlcg", "-c", b.properties,
		"--standalone").CombinedOutput(); err != nil {
		t.Fatalf("format: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		b.kill()
		if t.Failed() {
			all, _ := os.ReadFile(b.log.Name())
			t.Logf("the end of the broker's log:\n%s", all[max(0, len(all)-4000):])
		}
		_ = b.log.Close()
	})
	return b
}

// jars has Maven bring the broker's jars, once for this machine.
func jars(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "yett-test", "kafka-4.1.0")
	done := filepath.Join(dir, "complete")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	cmd := exec.Command("mvn", "-B", "-q", "-f", "testdata/broker/pom.xml", "dependency:copy-dependencies",
		"-DoutputDirectory="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("bring the jars: %v\n%s", err, out)
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// port is one that was free a moment ago.
func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func (b *broker) java(args ...string) *exec.Cmd {
	cmd := exec.Command("java", append([]string{"-Xms128m", "-Xmx384m", "-Dlog4j2.level=WARN", "-cp",
		filepath.Join(b.jars, "*")}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start returns when the broker answers.
func (b *broker) start(ctx context.Context) error {
	b.cmd = b.java("kafka.Kafka", b.properties)
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	if err := b.cmd.Start(); err != nil {
		return err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	for cl.Ping(ctx) != nil {
		if ctx.Err() != nil {
			return errors.New("the broker does not answer")
		}
	}
	return nil
}

// kill is SIGKILL: the broker writes nothing any more.
func (b *broker) kill() {
	if b.cmd != nil && b.cmd.Process != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		b.cmd = nil
	}
}

// TestRealBroker kills Apache Kafka under load and wants every record in the topic, and in each partition the first
// copies in the order of the log.
func TestRealBroker(t *testing.T) {
	for _, c := range []struct {
		name   string
		config map[string]any
		opts   []kgo.Opt
	}{
		{"idempotent", map[string]any{}, nil},
		{"transactional", map[string]any{"transactional_id": "yett-test"}, []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords()}},
	} {
		t.Run(c.name, func(t *testing.T) { killUnderLoad(t, c.config, c.opts) })
	}
}

func killUnderLoad(t *testing.T, more map[string]any, opts []kgo.Opt) {
	const kills, batches, size = 3, 400, 100
	b := newBroker(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := b.start(ctx); err != nil {
		t.Fatal(err)
	}
	config := map[string]any{
		"brokers": []string{b.addr}, "topic": topic, "key": "agent_id", "create": true, "partitions": 3, "timeout": "5s",
	}
	for k, v := range more {
		config[k] = v
	}
	p := loaded(t, config, nil)
	var log plugintest.Log
	todo := make([]*plugin.Batch, batches)
	for i := range todo {
		todo[i] = log.Append(lines(1+i*size, size)...)
	}
	failures := remotetest.SendKilling(ctx, t, p, todo, kills, func(ctx context.Context) error {
		b.kill()
		return b.start(ctx)
	})
	again := complete(t, drain(t, []string{b.addr}, opts...), batches*size)
	t.Logf("%d records, %d kills, %d batches failed meanwhile, %d records came again", batches*size, kills, failures,
		again)
}

// complete wants all numbers, and in each partition every first copy behind the first copies of smaller numbers.
func complete(t *testing.T, got []*kgo.Record, n int) (again int) {
	t.Helper()
	seen, last := make([]bool, n+1), map[int32]int{}
	for _, r := range got {
		seq, err := strconv.Atoi(header(r, "yett-seq"))
		if err != nil || seq < 1 || seq > n {
			t.Fatalf("number %q", header(r, "yett-seq"))
		}
		if want := line(seq, "agent-"+strconv.Itoa(seq%5)); string(r.Value) != want ||
			!bytes.Equal(r.Key, []byte("agent-"+strconv.Itoa(seq%5))) {
			t.Fatalf("record %d: %s is not %s", seq, r.Value, want)
		}
		switch {
		case seen[seq]:
			again++
		case seq < last[r.Partition]:
			t.Fatalf("partition %d: %d came after %d", r.Partition, seq, last[r.Partition])
		default:
			last[r.Partition] = seq
		}
		seen[seq] = true
	}
	var missing []string
	for i := 1; i <= n; i++ {
		if !seen[i] {
			missing = append(missing, strconv.Itoa(i))
		}
	}
	if len(missing) > 0 {
		t.Fatalf("%d are missing: %.200s", len(missing), strings.Join(missing, " "))
	}
	return again
}
