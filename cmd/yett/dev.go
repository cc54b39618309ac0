package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
)

//go:embed dev/yett.yaml
var devConfig []byte

//go:embed dev/rules.yaml
var devRules []byte

// devFlags are dev's flags.
type devFlags struct {
	config, data, listen, socket, metrics string
	out                                   output
}

func devCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a gateway to try things out, with keys and curl lines to copy",
		Long: "Run one process with default chains: reads are permitted, the plainly destructive is denied, money movement\n" +
			"and deletion are deferred, secrets in outputs are redacted. Without --data everything is thrown away at the end.\n" +
			"With -o json one line goes to stdout once it is ready: url, socket, metrics, console, data, keys.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "configuration file instead of the default chains")
	fs.StringVar(&f.data, "data", "", "data directory to keep (default: a throw-away one)")
	fs.StringVar(&f.listen, "listen", "", "address of the HTTP API (default 127.0.0.1:8420; port 0 takes a free one)")
	fs.StringVar(&f.socket, "socket", "", "path of the agents' socket (default yett.sock in the data directory)")
	fs.StringVar(&f.metrics, "metrics", "", "address of the metrics (default a free port of 127.0.0.1; \"off\" for none)")
	f.out.bind(cmd)
	return cmd
}

func (f *devFlags) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	log := logger(stderr)
	data := f.data
	if data == "" {
		if data, err = os.MkdirTemp("", "yett-dev-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	} else if data, err = filepath.Abs(data); err != nil {
		return err
	}
	cfg, err := f.load(data)
	if err != nil {
		return err
	}
	opts := core.Options{Version: version(), Log: log, OwnPeer: true, ConfigFile: f.config, Load: func() (*config.Config, error) { return f.load(data) }}
	if f.data == "" { // else, and where the user has none, it is in the data directory
		opts.CacheDir = moduleCache()
	}
	var keys devKeySet
	return runGateway(ctx, cfg, opts, func(g *core.Gateway) (err error) {
		if keys, err = devKeys(ctx, g.Service()); err != nil {
			return err
		}
		if len(cfg.Socket.Peers) == 0 { // whoever runs this is the agent of the demonstration, without a key in its hands
			id, _, _ := strings.Cut(strings.TrimPrefix(keys.Agent, "yett_"), "_")
			g.MapPeer(core.OwnUser(), id)
		}
		return nil
	}, func(g *core.Gateway) error {
		at := devPlaces{URL: g.URL(), Socket: optional(g.SocketPath()), Metrics: optional(g.MetricsURL()), Console: optional(consoleOf(g)), Data: data, Keys: keys}
		if !f.out.table() {
			return f.out.printData(stdout, []any{at}, true)
		}
		steps := tour(at.URL, keys, sampleSecret())
		if f.config != "" { // of chains that are not ours nothing can be foretold
			steps = []tourStep{{"what the chains say of a call", postLine(at.URL, keys.Agent, "/v1/authorize", `{"agent_id":"demo","tool_id":"files/read","args":{"path":"README.md"}}`)}}
		}
		return printTour(stdout, at, f.data == "", steps)
	})
}

// load lays the flags over the given configuration, or over the default chains.
func (f *devFlags) load(data string) (*config.Config, error) {
	flags := map[string]any{"storage.path": data}
	if f.metrics != "" {
		flags["server.metrics"] = f.metrics
	}
	if f.listen != "" {
		flags["server.listen"] = f.listen
	}
	if f.socket != "" {
		socket, err := filepath.Abs(f.socket)
		if err != nil {
			return nil, err
		}
		flags["socket.path"] = socket
	}
	src := config.Sources{File: f.config, Env: os.Environ(), Flags: flags, Builtins: scanners.Names(), Serve: true}
	src.Default = []byte("version: 1\nserver: {metrics: \"127.0.0.1:0\"}\nconsole: {listen: \"127.0.0.1:0\"}\n") // several may run at once
	if f.config == "" {
		src.Default, src.DefaultDir = devConfig, "builtin"
		src.Files = map[string][]byte{filepath.Join("builtin", "rules.yaml"): devRules}
	}
	return config.Load(src)
}

// devKeySet are the values of the three keys.
type devKeySet struct {
	Agent    string `json:"agent"`
	Approver string `json:"approver"`
	Operator string `json:"operator"`
}

// devKeys makes three new keys. Earlier ones on the same data stay valid, so a name that is taken gets a number.
func devKeys(ctx context.Context, s *ops.Service) (devKeySet, error) {
	var out devKeySet
	by := store.Who{Principal: "dev", Method: "system", Surface: "system"}
	for _, k := range []struct {
		preset string
		value  *string
	}{{"agent", &out.Agent}, {"approver", &out.Approver}, {"operator", &out.Operator}} {
		for n := 1; ; n++ {
			name := "dev-" + k.preset
			if n > 1 {
				name = fmt.Sprintf("%s-%d", name, n)
			}
			made, err := s.CreateKey(ctx, ops.KeySpec{Name: name, Preset: k.preset}, by)
			var refused *sdk.Error
			if errors.As(err, &refused) && refused.Code == sdk.CodeNameTaken {
				continue
			}
			if err != nil {
				return out, err
			}
			*k.value = made.Value
			break
		}
	}
	return out, nil
}

// devPlaces is what -o json prints: where everything is.
type devPlaces struct {
	URL     string    `json:"url"`
	Socket  *string   `json:"socket"`
	Metrics *string   `json:"metrics"`
	Console *string   `json:"console"`
	Data    string    `json:"data"`
	Keys    devKeySet `json:"keys"`
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// consoleOf is where to open the console: the one-time link while nobody can sign in, its address else.
func consoleOf(g *core.Gateway) string {
	if link := g.FirstOperatorLink(); link != "" {
		return link
	}
	return g.ConsoleURL()
}

// sampleSecret is shaped like a GitHub token and is none. It is put together here so that no file holds it.
func sampleSecret() string {
	return "gh" + "p_" + "x7Kq2mV9tR4wZ1nB8cY5" + "dL3fH6jP0sGaT2uE"
}

func printTour(w io.Writer, at devPlaces, thrown bool, steps []tourStep) error {
	var b strings.Builder
	kept := ""
	if thrown {
		kept = " (thrown away at the end)"
	}
	keys := at.Keys
	fmt.Fprintf(&b, "Yett is ready on %s, data in %s%s.\n", at.URL, at.Data, kept)
	if at.Socket != nil {
		fmt.Fprintf(&b, "socket   %s (what you start yourself needs no key there: it is the agent)\n", *at.Socket)
	}
	if at.Console != nil {
		fmt.Fprintf(&b, "console  %s\n", *at.Console)
	}
	fmt.Fprintf(&b, "\nkeys, shown once:\n  agent     %s\n  approver  %s\n  operator  %s\n", keys.Agent, keys.Approver, keys.Operator)
	for _, step := range steps {
		fmt.Fprintf(&b, "\n# %s\n%s\n", step.title, step.line)
	}
	b.WriteString("\nStop with Ctrl-C.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

type tourStep struct{ title, line string }

// postLine is one line of shell that sends body.
func postLine(url, key, path, body string) string {
	return fmt.Sprintf(`curl -s %s%s -H "Authorization: Bearer %s" -d '%s'`, url, path, key, body)
}

// tour are the curl lines that show what the default chains do. Each is one line of shell.
func tour(url string, keys devKeySet, secret string) []tourStep {
	post := func(key, path, body string) string { return postLine(url, key, path, body) }
	refund := `{"agent_id":"demo","tool_id":"payments/refund","args":{"order":"A-17","amount":120.50}`
	return []tourStep{
		{"a read is permitted", post(keys.Agent, "/v1/authorize", `{"agent_id":"demo","tool_id":"files/read","args":{"path":"README.md"}}`)},
		{"the plainly destructive is denied", post(keys.Agent, "/v1/authorize", `{"agent_id":"demo","tool_id":"shell/run","args":{"command":"rm -rf /"}}`)},
		{"money movement waits for a human", "TOKEN=$(" + post(keys.Agent, "/v1/authorize", refund+"}") + ` | tee /dev/stderr | sed 's/.*"defer_token":"\([^"]*\)".*/\1/')`},
		{"another key approves it", strings.ReplaceAll(post(keys.Approver, "/v1/approve", `{"defer_token":"'"$TOKEN"'","approved":true,"reason":"order checked"}`), "''", "")},
		{"the agent redeems the approval, once", post(keys.Agent, "/v1/authorize", refund+`,"defer_token":"'"$TOKEN"'"}`)},
		{"a secret in an output is redacted", post(keys.Agent, "/v1/scan_output", `{"tool_id":"files/read","output":"export GITHUB_TOKEN=`+secret+`"}`)},
	}
}
