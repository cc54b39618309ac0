package main

import (
	"context"
	"errors"
	"fmt"
	libraries "log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/logqueue"
)

func serveCommand() *cobra.Command {
	var named cli.ConfigFile
	var listen, data string
	cmd := &cobra.Command{
		Use:   "serve [FILE]",
		Short: "Run the gateway with a configuration",
		Long: "Run the gateway. On an empty data directory it makes its secrets (pepper, audit.key) and authorizes " +
			"nothing\n" +
			"until a key exists: yett keys create NAME --data DIR. SIGTERM drains and ends it, SIGHUP reloads it, and so " +
			"does a\n" +
			"change of a file that the configuration was read from. A bad configuration at the start is exit 78.",
		Example: "  yett serve --config yett.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := named.Required(args, "serve", "--config FILE")
			if err != nil {
				return err
			}
			if err := core.Hide(); err != nil {
				return err
			}
			load := func() (*config.Config, error) {
				return cli.LoadConfig(file, map[string]string{"server.listen": listen, "storage.path": data}, true)
			}
			cfg, err := load()
			if err != nil {
				return err
			}
			queue := logqueue.New(cmd.ErrOrStderr(), time.Now, core.Redacted)
			log := queue.Logger()
			return runGateway(cmd.Context(), cfg, queue, core.Options{Version: cli.Version(), Load: load, ConfigFile: file}, nil,
				func(g *core.Gateway) error {
					log.Info(fmt.Sprintf("serving on %s, data in %s", g.URL(), cfg.Storage.Path))
					if g.SocketPath() != "" {
						log.Info("agents' socket: " + g.SocketPath())
					}
					if g.ConsoleURL() != "" {
						log.Info("console: " + g.ConsoleURL())
					}
					if g.DoorURL() != "" {
						log.Info("doors: " + g.DoorURL())
					}
					if g.MCPURL() != "" {
						log.Info("MCP gateway: " + g.MCPURL() + "/mcp/NAME")
					}
					if link := g.FirstOperatorLink(); link != "" {
						log.Warn("nobody can sign in at the console yet; the first operator signs up here, once, within 24 hours: " +
							link)
					}
					if len(g.Service().Keys()) == 0 {
						log.Warn(fmt.Sprintf("there is no API key yet, so nothing is authorized: yett keys create NAME --data %s",
							cfg.Storage.Path))
					}
					return nil
				})
		},
	}
	named.Bind(cmd)
	cmd.Flags().StringVar(&listen, "listen", "", "instead of server.listen")
	cmd.Flags().StringVar(&data, "data", "", "instead of storage.path")
	return cmd
}

// grace is how long refusals may take to go out after the store has failed.
const grace = 200 * time.Millisecond

// flushMost is how long lines of the log that wait are written at the end of the process.
const flushMost = time.Second

// endSlack is how long a gateway may take to end beside its calls and plugins, before that is taken for a hang.
const endSlack = time.Minute

// endOf is how long a gateway may take to end: as long as its calls and its plugins may take, and a while.
func endOf(cfg *config.Config) time.Duration {
	var plugins time.Duration
	for _, p := range cfg.Plugins {
		plugins = max(plugins, p.Limits.Drain.Std())
	}
	return cfg.Server.Drain.Std() + plugins + endSlack
}

// runGateway runs a gateway until ctx ends. before, if not nil, is called before it answers, ready once it does. All
// that is logged goes through log, so nothing waits for whoever reads it. An error is for the caller to print, unless
// nobody reads what is printed.
func runGateway(ctx context.Context, cfg *config.Config, log *logqueue.Queue, opts core.Options,
	before, ready func(*core.Gateway) error) (err error) {
	log.Configure(cfg.Log.Least(), cfg.Log.JSON())
	opts.Log, opts.LogLost, opts.ConfigureLog = log.Logger(), log.Lost, log.Configure
	// where nobody reads the log any more, writing it fails and does not end the process
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	libraries.SetFlags(0)
	libraries.SetOutput(log)
	defer func() {
		if !log.Flush(flushMost) && err != nil {
			err = cli.Fail(cli.CodeFor(err), nil)
		}
	}()
	return runLogged(ctx, cfg, log, opts, before, ready)
}

// runLogged is runGateway with the log set up.
func runLogged(ctx context.Context, cfg *config.Config, log *logqueue.Queue, opts core.Options,
	before, ready func(*core.Gateway) error) error {
	fatal := make(chan error, 1)
	opts.OnFatal = func(err error) {
		opts.Log.Error(fmt.Sprintf("the store has failed, the process ends: %v", err))
		select {
		case fatal <- err:
		default:
		}
		time.AfterFunc(grace, func() {
			log.Flush(flushMost)
			os.Exit(cli.ExitIO)
		})
	}
	again := hangups()
	defer signal.Stop(again)
	serving.Store(true)
	defer serving.Store(false)
	ended, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		late := time.AfterFunc(endOf(cfg), func() {
			opts.Log.Error("it does not end, since something hangs: the process ends now; all that was answered is on disk")
			log.Flush(flushMost)
			os.Exit(cli.ExitFailure)
		})
		context.AfterFunc(ended, func() { late.Stop() })
	})()
	g, err := core.New(ctx, cfg, opts)
	if err != nil {
		return cli.Fail(startCode(cfg, err), err)
	}
	for _, w := range slices.Concat(loaded.Warnings(cfg), core.DiskWarnings(cfg)) {
		opts.Log.Warn("warning: " + w)
	}
	if before != nil {
		err = before(g)
	}
	if err == nil {
		if err = g.Start(ctx); err != nil {
			err = cli.Fail(startCode(cfg, err), err)
		}
	}
	if err != nil {
		return errors.Join(err, g.Close(context.WithoutCancel(ctx)))
	}
	stop := reloadOnSignal(ctx, g, again)
	err = ready(g)
	if err == nil {
		err = g.Wait(ctx)
	}
	stop()
	opts.Log.Info("stopping")
	err = errors.Join(err, g.Close(context.WithoutCancel(ctx)))
	select {
	case cause := <-fatal:
		return cli.Fail(cli.ExitIO, cause)
	default:
		return err
	}
}

// startCode tells a bad configuration (rules, modules, files that it points to) from a machine that does not play
// along.
func startCode(cfg *config.Config, err error) int {
	if !core.IsConfigError(err) {
		return cli.ExitFailure
	}
	var path *os.PathError
	if errors.As(err, &path) && !pointsTo(cfg, path.Path) {
		return cli.ExitFailure
	}
	return cli.ExitConfig
}

// pointsTo reports whether file is one that a configuration names for a plugin.
func pointsTo(cfg *config.Config, file string) bool {
	file, err := filepath.Abs(file)
	if err != nil {
		return false
	}
	for _, p := range cfg.Plugins {
		if named, err := filepath.Abs(string(p.File())); p.File() != "" && err == nil && named == file {
			return true
		}
	}
	return false
}
