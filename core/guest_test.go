package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
	"github.com/yett-dev/yett/sdk/wire"
)

// guestEnv makes this test binary the plugin that it names, guestDir is where it and its test leave each other files.
const (
	guestEnv = "CORE_GUEST"
	guestDir = "CORE_GUEST_DIR"
)

// lastWords is what a guest writes to stderr before it ends by itself.
const lastWords = "the password was not taken"

// serveGuest is what this test binary does as a plugin.
func serveGuest(mode string) {
	kind, arg, _ := strings.Cut(mode, ":")
	info := plugin.Info{Name: "guest", Version: "1.0.0", Secrets: []plugin.Secret{{Name: "token"}}}
	secret := ""
	check := func(ctx context.Context, c *plugin.Call) (sdk.Verdict, error) {
		switch {
		case c.ToolID == "guest/die":
			fmt.Fprintln(os.Stderr, lastWords, tokenOf(c))
			os.Exit(3)
		case c.ToolID == "guest/say":
			fmt.Fprintln(os.Stderr, `{"@level":"warn","@message":"slow","took":7}`)
		case c.ToolID == "guest/fail":
			return sdk.Verdict{}, errors.New(lastWords)
		case c.ToolID == "guest/quote":
			return sdk.Verdict{Effect: sdk.Deny, Code: "GUEST", Reason: "cannot read token " + tokenOf(c)}, nil
		case c.ToolID == "guest/fail-quoting":
			return sdk.Verdict{}, errors.New("cannot read token " + tokenOf(c))
		case c.ToolID == "guest/tell":
			return sdk.Verdict{Effect: sdk.Deny, Code: "GUEST", Reason: "with " + secret, Message: "with " + secret,
				RuleID: "with " + secret}, nil
		case c.ToolID == "guest/fail-telling":
			return sdk.Verdict{}, errors.New("with " + secret)
		case c.ToolID == "guest/wait":
			leave("asked")
			awaitFile(ctx, "go")
		}
		if c.ToolID == "guest/generation" {
			arg = c.Generation
		}
		return sdk.Verdict{Effect: sdk.Deny, Code: "GUEST", Reason: arg}, nil
	}
	configure := func(ctx context.Context, s plugin.Settings) error {
		if secret = s.Secrets["token"]; secret != "" {
			fmt.Fprintln(os.Stderr, "its token is", secret)
		}
		switch kind {
		case "speaks":
			fmt.Fprintln(os.Stderr, lastWords)
			os.Exit(3)
		case "refuses":
			return errors.New("these settings do not please")
		case "hangs":
			leave("configured")
			<-ctx.Done()
		}
		return nil
	}
	validate := func(_ context.Context, s plugin.Settings) error {
		if kind == "tells" {
			return fmt.Errorf("token %q is refused", s.Secrets["token"])
		}
		return nil
	}
	consume := func(ctx context.Context, b *plugin.Batch) error {
		leave("asked")
		switch {
		case kind == "dies" && slices.ContainsFunc(b.Records, func(r plugin.Record) bool { return r.Seq == 2 }):
			os.Exit(3)
		case kind == "waits":
			awaitFile(ctx, "go")
		}
		return nil
	}
	if kind == "dies" || kind == "waits" {
		plugin.Serve(plugin.Subscriber{Info: info, Consume: consume})
		return
	}
	plugin.Serve(plugin.Authorizer{Info: info, Validate: validate, Configure: configure, Check: check})
}

// tokenOf is the argument that a guest quotes.
func tokenOf(c *plugin.Call) string {
	var args struct{ Token string }
	if json.Unmarshal(c.Args, &args) != nil {
		return ""
	}
	return args.Token
}

func leave(name string) {
	if err := os.WriteFile(filepath.Join(os.Getenv(guestDir), name), nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
}

func awaitFile(ctx context.Context, name string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if _, err := os.Stat(filepath.Join(os.Getenv(guestDir), name)); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

var guestFile = sync.OnceValues(func() (path, digest string) {
	path, err := os.Executable()
	if err != nil {
		return "", ""
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", ""
	}
	sum := sha256.Sum256(b)
	return path, "sha256:" + hex.EncodeToString(sum[:])
})

// world is a gateway with a configuration file that a test changes.
type world struct {
	t      *testing.T
	g      *Gateway
	key    *store.Key
	dir    string
	loaded func() // runs behind each reading of the configuration; nil: nothing does

	logMu sync.Mutex
	logAs string   // what the log was told last
	lines []string // of the server's log
}

const worldRules = "rules:\n  - {id: all, tools: [\"**\"], effect: permit}\n"

// guest is a plugin as a configuration has it.
func (w *world) guest(kind, mode string) string {
	path, digest := guestFile()
	return fmt.Sprintf("  guest: {kind: %s, exec: %q, digest: %q, env: {%s: %q, %s: %q}, paths: {write: [%q]}, limits: "+
		"{start: 60s, drain: 10s%s}}\n", kind, path, digest, guestEnv, mode, guestDir, w.guestFile(""), w.guestFile(""),
		map[string]string{"authorizer": ", timeout: 20s"}[kind])
}

// write changes the configuration file in one step.
func (w *world) write(plugins, steps, more string) {
	w.t.Helper()
	w.put("yett.yaml", "version: 1\nserver: {metrics: \"off\", drain: 20s}\nplugins:\n  secrets: {kind: scanner, "+
		"builtin: secrets}\n"+plugins+
		"chains:\n  scan_output: {steps: [{use: secrets}]}\n  authorize: {budget: 30s, steps: [{name: house, rules: "+
		"[rules.yaml]}"+steps+"]}\n"+more)
}

// guestFile is a file in the directory that the guest may write.
func (w *world) guestFile(name string) string { return filepath.Join(w.dir, "guest", name) }

func (w *world) put(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+".new", []byte(text), 0o600),
		os.Rename(path+".new", path))
	if err != nil {
		w.t.Fatal(err)
	}
}

const guestStep = `, {use: guest, match: {tools: ["guest/**"]}}`

// newWorld starts a gateway. Its own watcher of files does not run: tests look for themselves.
func newWorld(t *testing.T, set func(w *world)) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no plugin process is started")
	}
	w, data := &world{t: t, dir: t.TempDir()}, t.TempDir()
	w.put("rules.yaml", worldRules)
	if err := os.Mkdir(w.guestFile(""), 0o700); err != nil {
		t.Fatal(err)
	}
	set(w)
	load := func() (*config.Config, error) {
		cfg, err := config.Load(config.Sources{File: filepath.Join(w.dir, "yett.yaml"), Builtins: scanners.Names(),
			Serve: true, Flags: map[string]any{"storage.path": data, "server.listen": "127.0.0.1:0",
				"console.listen": "127.0.0.1:0"}})
		if w.loaded != nil {
			w.loaded()
		}
		return cfg, err
	}
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	w.g, err = New(ctx, cfg, Options{Version: "test", CacheDir: compiled, Log: logTo(w.log), OnFatal: func(err error) {
		t.Error(err)
	}, Load: load, ConfigureLog: func(least slog.Level, json bool) { w.logAs = fmt.Sprint(least, json) },
		ConfigFile: filepath.Join(w.dir, "yett.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.g.EndReloads()
		if err := w.g.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	w.g.states.Start(w.g.service.Note, w.g.closing)
	w.g.feeds.Apply(w.g.gen.Load())
	made, err := w.g.Service().CreateKey(ctx, ops.KeySpec{Name: "test", Preset: "agent"}, operator)
	if err == nil {
		w.key, err = w.g.Service().KeyOf(made.Value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

var operator = store.Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin", Peer: "0"}

func (w *world) reload() (admin.Reloaded, error) { return w.g.Reload(context.Background(), operator) }

// reloads wants a reload that goes well.
func (w *world) reloads() {
	w.t.Helper()
	if _, err := w.reload(); err != nil {
		w.t.Fatal(err)
	}
}

// ask gives the effect of a call and its reason. The guest denies, with its own name as the reason.
func (w *world) ask(tool string) string {
	c := newCaller(w.t, w.g, w.key, "authorize", fmt.Sprintf(`{"agent_id":"a","tool_id":%q}`, tool))
	resp, err := c.call()
	if err != nil {
		return err.Error()
	}
	d := resp.(*wire.AuthorizeResponse)
	return d.Effect + " " + d.Reason
}

// until waits for what must happen.
func (w *world) until(what string, happened func() bool) {
	w.t.Helper()
	late := time.NewTimer(60 * time.Second)
	defer late.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-late.C:
			w.t.Fatalf("%s: it does not happen", what)
		}
	}
}

// left says whether the guest has left a file.
func (w *world) left(name string) bool {
	_, err := os.Stat(w.guestFile(name))
	return err == nil
}

func (w *world) log(format string, args ...any) {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// logged is the server's log.
func (w *world) logged() string {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	return strings.Join(w.lines, "\n")
}

// part is what /readyz says of something.
func (w *world) part(name string) string {
	for _, p := range w.g.ready() {
		if p.Name == name {
			return p.Detail
		}
	}
	return ""
}

// recorded are the records of some type.
func (w *world) recorded(typ string) (out []string) {
	w.t.Helper()
	err := w.g.store.Records(1, func(_ uint64, record []byte) error {
		if strings.Contains(string(record), `"type":"`+typ+`"`) {
			out = append(out, string(record))
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}
