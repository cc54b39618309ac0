//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/core/httpd"
)

// What is measured runs in processes of its own: this program again, with the hidden subcommands below. They end when
// their standard input does, so that none outlives the benchmark.

// keySet are the values of the keys that a gateway prints.
type keySet struct{ Agent, Approver, Operator string }

// gatewayRun runs a throw-away gateway with a configuration file until ctx ends. It prints one line of JSON once it
// answers: url, socket, metrics and keys.
type gatewayRun func(ctx context.Context, file string, stdout, stderr io.Writer) error

// child is a running server.
type child struct {
	addr    string // host:port
	socket  string // path, "" for the echo
	keys    keySet
	metrics string // URL, "" for the echo
	cmd     *exec.Cmd
	stdin   io.Closer
	said    *bytes.Buffer
}

// childStart is how long a child may take until it answers. Compiling the scanners for the first time takes most of it.
const childStart = 2 * time.Minute

func startChild(ctx context.Context, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, append([]string{"bench"}, args...)...), said: &bytes.Buffer{}}
	c.cmd.Env = benchEnv(os.Environ())
	c.cmd.Stderr = c.said
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = 10 * time.Second
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	late := time.AfterFunc(childStart, func() { _ = c.cmd.Process.Kill() }) // an error means that it has ended already
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	late.Stop()
	if err == nil {
		err = c.ready(line)
	}
	if err != nil {
		return nil, fmt.Errorf("bench %s: %w", args[0], errors.Join(err, c.stop()))
	}
	return c, nil
}

// ready reads the line that a child prints when it answers.
func (c *child) ready(line []byte) error {
	var said struct {
		URL     string
		Socket  string
		Metrics string
		Keys    keySet
	}
	if err := json.Unmarshal(line, &said); err != nil {
		return err
	}
	c.addr, c.socket, c.keys, c.metrics = strings.TrimPrefix(said.URL, "http://"), said.Socket, said.Keys, said.Metrics
	return nil
}

// stop ends the child and waits for it. What it had to say comes with the error.
func (c *child) stop() error {
	c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(c.said.String()))
	}
	return nil
}

// benchEnv keeps settings of the caller's surroundings out of the measured gateway.
func benchEnv(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "YETT_") {
			out = append(out, e)
		}
	}
	return out
}

// counters are what the gateway tells of itself.
type counters struct {
	records float64 // in the audit log
	cpu     float64 // microseconds computed by its own process
	bytes   float64 // allocated since the start
	objects float64
	written float64 // bytes, to the disk
}

// counters asks a gateway for its metrics.
func (c *child) counters(ctx context.Context) (out counters, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.metrics, nil)
	if err != nil {
		return out, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	want := map[string]*float64{"yett_audit_records_total": &out.records, "go_memstats_alloc_bytes_total": &out.bytes,
		"go_memstats_mallocs_total": &out.objects}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if to := want[name]; to != nil {
			if *to, err = strconv.ParseFloat(value, 64); err != nil {
				return out, fmt.Errorf("metric %s: %w", name, err)
			}
			delete(want, name)
		}
	}
	for name := range want {
		return out, errors.Join(lines.Err(), fmt.Errorf("the gateway's metrics have no %s", name))
	}
	computed, err := computedBy(c.cmd.Process.Pid)
	out.cpu = micros(computed)
	var bad error
	out.written, bad = writtenBy(c.cmd.Process.Pid)
	return out, errors.Join(err, bad, lines.Err())
}

// writtenBy is how many bytes a process has sent to the disk.
func writtenBy(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	_, after, found := strings.Cut(string(text), "\nwrite_bytes: ")
	value, _, _ := strings.Cut(after, "\n")
	if !found {
		return 0, errors.New("/proc/PID/io has no write_bytes")
	}
	return strconv.ParseFloat(value, 64)
}

// computedBy is how long a process has computed. The kernel counts in hundredths of a second.
func computedBy(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name before it may hold anything
	if len(fields) < 13 {
		return 0, errors.New("/proc/PID/stat has no times")
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// How long to wait until a gateway has worked off what it was left with, such as compactions.
const (
	calmLook = 200 * time.Millisecond
	calmWork = calmLook / 10 // computing no longer than this in one look is calm
	calmMost = 10 * time.Second
)

// calm waits until a gateway that nobody asks anything computes next to nothing, at most for calmMost: what it still
// does then makes its figures worse, not better.
func (c *child) calm(ctx context.Context) error {
	until := time.Now().Add(calmMost)
	before, err := computedBy(c.cmd.Process.Pid)
	for err == nil && time.Now().Before(until) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(calmLook):
		}
		var now time.Duration
		if now, err = computedBy(c.cmd.Process.Pid); now-before <= calmWork {
			break
		}
		before = now
	}
	return err
}

// untilInputEnds is a context that ends with standard input.
func untilInputEnds(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(cmd.Context())
	go func() {
		_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // however it ends, it has ended
		cancel()
	}()
	return ctx, cancel
}

func benchEchoCommand() *cobra.Command {
	return &cobra.Command{Use: "echo", Hidden: true, Short: "Answer every request with its body", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilInputEnds(cmd)
			defer cancel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			context.AfterFunc(ctx, func() { ln.Close() })
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "{\"url\":\"http://%s\"}\n", ln.Addr()); err != nil {
				return err
			}
			if err := httpd.ServeEcho(ln); ctx.Err() == nil {
				return err
			}
			return nil
		}}
}

func benchGatewayCommand(run gatewayRun) *cobra.Command {
	var args, match, plugin string
	var rules, authorizers int
	var subscriber bool
	cmd := &cobra.Command{Use: "gateway", Hidden: true, Short: "Run a throw-away gateway", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, cancel := untilInputEnds(cmd)
			defer cancel()
			dir, err := os.MkdirTemp("", "yett-bench-")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			list := benchRules()
			if rules > 0 {
				list = ruledRules(rules)
			}
			config, err := withPlugins(benchConfig(args), plugin, authorizers, match, subscriber)
			if err != nil {
				return err
			}
			for name, text := range map[string]string{"yett.yaml": config, "rules.yaml": list} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					return err
				}
			}
			return run(ctx, filepath.Join(dir, "yett.yaml"), cmd.OutOrStdout(), cmd.ErrOrStderr())
		}}
	cmd.Flags().StringVar(&args, "args", "digest", "audit.args of the gateway")
	cmd.Flags().IntVar(&authorizers, "authorizers", 0, "so many plugin processes in the authorize chain")
	cmd.Flags().StringVar(&plugin, "plugin", "", "the program of the plugins")
	cmd.Flags().StringVar(&match, "match", "**", "tools that they are asked about")
	cmd.Flags().BoolVar(&subscriber, "subscriber", false, "a plugin process follows the audit log")
	cmd.Flags().IntVar(&rules, "rules", 0, "so many rules, each for the tools of one service; 0 for the usual 100")
	return cmd
}
