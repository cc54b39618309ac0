package author

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// debugTimeout is how long a call may take while somebody stands at a breakpoint.
const debugTimeout = time.Hour

func pluginDebug() *cobra.Command {
	var f pluginFlags
	var t trial
	var socket string
	cmd := &cobra.Command{
		Use:   "debug BINARY",
		Short: "Wait for a plugin that was started under a debugger, and try calls on it",
		Long: "Print how to start the plugin under a debugger in another terminal, wait until its socket is there, " +
			"connect, and then\n" +
			"do what yett plugin run does, with an hour for each call: set breakpoints, type calls.\n\n" +
			"A plugin built with sdk/plugin serves on a socket when it is started with --listen, so for Go it is\n" +
			"  dlv exec ./entitle -- --listen unix:///…/plugin.sock\n" +
			"Another one is started with the variables of the handshake, and its socket in the folder that they name is " +
			"found. It has\n" +
			"no PLUGIN_CLIENT_CERT and so no TLS. While it serves, yett plugin conform --connect works on it, too.\n\n" +
			trialHelp,
		Example: "  yett plugin debug ./entitle\n  yett plugin debug ./entitle --config settings.json --tool mail/send",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(); err != nil {
				return err
			}
			o, err := f.conformOptions(cmd, args)
			if err != nil {
				return err
			}
			dir, end, err := debugFolder(socket)
			if err != nil {
				return err
			}
			defer end()
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			explainDebug(cmd, path, dir)
			found, err := awaitSocket(cmd.Context(), dir)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "connected to unix://%s\n", found)
			o.Path, o.Env, o.Connect = "", nil, "unix://"+found
			return t.run(cmd, o)
		},
	}
	f.bindSettings(cmd)
	cmd.Flags().StringArrayVar(&f.secrets, "secret", nil, "NAME=FILE: a secret of the plugin; may be given more than once")
	cli.DurationVar(cmd, &f.timeout, "timeout", debugTimeout, "how long one call may take")
	cmd.Flags().StringVar(&socket, "dir", "", "folder for the socket, which must be there (default: a new one, removed "+
		"at the end)")
	t.bind(cmd)
	return cmd
}

// debugFolder is where the plugin will have its socket.
func debugFolder(given string) (dir string, end func(), err error) {
	if given == "" {
		if dir, err = os.MkdirTemp("", "yett-debug-"); err != nil {
			return "", nil, err
		}
		return dir, func() { os.RemoveAll(dir) }, nil
	}
	if dir, err = filepath.Abs(given); err != nil {
		return "", nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", nil, cli.Usage("--dir %s: there is no such folder", given)
	}
	return dir, func() {}, nil
}

// explainDebug prints what to type.
func explainDebug(cmd *cobra.Command, path, dir string) {
	fmt.Fprintf(cmd.ErrOrStderr(), `Start the plugin in another terminal, with a debugger if it is a Go program:

  dlv exec %[1]s -- --listen unix://%[2]s/plugin.sock

One that has no --listen, since it is not built with sdk/plugin:

  env -i %[3]s=%[4]s PLUGIN_PROTOCOL_VERSIONS=%[5]d PLUGIN_UNIX_SOCKET_DIR=%[2]s %[1]s

Waiting for a socket in %[2]s; Ctrl-C gives up.
`, cli.Quoted(path), dir, pluginv1.CookieKey, pluginv1.CookieValue, pluginv1.ProtocolVersion)
}

// awaitSocket waits until there is a socket in a folder, for as long as the user does.
func awaitSocket(ctx context.Context, dir string) (string, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if e.Type()&fs.ModeSocket != 0 && answers(path) {
				return path, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", errors.New("no plugin came")
		}
	}
}

// answers says whether somebody accepts connections: the file is there a moment earlier.
func answers(socket string) bool {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
