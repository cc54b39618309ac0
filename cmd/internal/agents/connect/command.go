package connect

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/regular"
)

// maxKeyFile is how many bytes a file with a key may have.
const maxKeyFile = 4 << 10

// Options are what the command needs from the program.
type Options struct {
	// Gateway names the gateway on this machine, by its data directory or its configuration.
	Gateway func(data, config string) (Gateway, error)
	// Doctor proves that the hooks work. It is run at the end; nil runs nothing.
	Doctor func(cmd *cobra.Command, agent string, scope Scope) error
}

// flags are the command's flags.
type flags struct {
	managed, project, user, print, undo, noKey bool
	wrap, mcp                                  bool
	data, config, socket, url, keyFile         string
	group, agentID                             string
	pins, servers                              []string
	mcpURL                                     string
	mcpPins, gated                             []string
}

// Command is `yett connect`.
func Command(o Options) *cobra.Command {
	var f flags
	var out cli.Output
	names := make([]string, 0, len(hook.Agents()))
	for _, a := range hook.Agents() {
		names = append(names, string(a))
	}
	cmd := &cobra.Command{
		Use:   "connect AGENT",
		Short: "Put Yett's hooks into a coding agent's configuration, or take them out",
		Long: "Write hooks into the agent's own configuration, so that it asks the gateway before each tool.\n" +
			"Everything else in these files stays as it is, and --undo brings back what was there before.\n" +
			"The hook's own file says where the gateway is. It holds the key, which is never printed.\n\n" +
			"--mcp writes the gateway's MCP servers into the agent's configuration too, each as `yett mcp --server NAME`.\n" +
			"The gateway decides about their tools, and the hooks pass them over.\n\n" +
			"--user and --project are advisory: the agent can change these files. --managed writes below /etc.\n" +
			"It takes root, and --group names the users who run the agent: their hooks have to read the key.\n\n" +
			"Agents: " + strings.Join(names, ", ") + ".",
		Example: "  yett connect claude-code --data /var/lib/yett --print\n" +
			"  yett connect claude-code --data /var/lib/yett\n" +
			"  sudo yett connect codex --managed --group agents --data /var/lib/yett\n" +
			"  yett connect gemini --url https://yett.example:8420 --pin sha256/… --key-file key\n" +
			"  yett connect codex --data /var/lib/yett --mcp --server github\n" +
			"  yett connect claude-code --undo --data /var/lib/yett",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.request(cmd, args[0], o)
			if err != nil {
				return err
			}
			do := Connect
			if f.undo {
				do = Undo
			}
			res, err := do(cmd.Context(), *r)
			if err != nil {
				return err
			}
			proves := o.Doctor != nil && !f.undo && !f.print
			err = out.PrintOr(cmd.OutOrStdout(), res, func(w io.Writer) error { return res.Text(w, f.undo, f.print, proves) })
			if err != nil || !proves {
				return err
			}
			if err := o.Doctor(cmd, args[0], r.Scope); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), next(res))
			return err
		},
	}
	out.Bind(cmd)
	f.bind(cmd)
	return cmd
}

func (f *flags) bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.user, "user", false, "the configuration of your user (default)")
	fl.BoolVar(&f.project, "project", false, "the configuration of the project in the current directory")
	fl.BoolVar(&f.managed, "managed", false, "the configuration of this machine, which users cannot change")
	fl.BoolVar(&f.print, "print", false, "show the change, and write nothing")
	fl.BoolVar(&f.undo, "undo", false, "take the hooks out, and remove the key")
	fl.StringVar(&f.data, "data", "", "data directory of the gateway on this machine: it makes the key")
	fl.StringVar(&f.config, "config", "", "configuration file that names it (storage.path)")
	fl.StringVar(&f.socket, "socket", "", "the gateway's socket for agents (default: that of --data or --config)")
	fl.StringVar(&f.url, "url", "", "the gateway's https address, instead of a socket")
	fl.StringSliceVar(&f.pins, "pin", nil, "with --url: sha256/BASE64 of the public key of the gateway's certificate")
	fl.StringVar(&f.keyFile, "key-file", "", "file with the key to use, - for stdin (default: a new key is made)")
	fl.BoolVar(&f.noKey, "no-key", false, "use no key: the gateway knows the agent's user (socket.peers)")
	fl.StringVar(&f.group, "group", "", "with --managed: name or number of the group that may read the key")
	fl.StringVar(&f.agentID, "agent-id", "", "what the gateway calls this agent (default AGENT)")
	fl.BoolVar(&f.wrap, "wrap", false, "run permitted shell commands in yett exec, which scans what they print")
	fl.BoolVar(&f.mcp, "mcp", false,
		"let the agent reach the gateway's MCP servers by `yett mcp`; --mcp=false takes that out")
	fl.StringSliceVar(&f.gated, "server", nil, "with --mcp: name of an MCP server at the gateway (default: all of them)")
	fl.StringVar(&f.mcpURL, "mcp-url", "", "with --mcp: address of the gateway's MCP listener")
	fl.StringSliceVar(&f.mcpPins, "mcp-pin", nil, "with --mcp-url: sha256/BASE64 of the public key of its certificate")
	fl.StringSliceVar(&f.servers, "mcp-server", nil, "name of an MCP server of the agent: tells server and tool apart")
}

// request makes a request of the flags and of this machine.
func (f *flags) request(cmd *cobra.Command, name string, o Options) (*Request, error) {
	agent, err := hook.ParseAgent(name)
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	r := &Request{Agent: agent, Scope: User, UID: os.Geteuid(), Group: -1, NoKey: f.noKey, Print: f.print}
	if err := f.scope(r); err != nil {
		return nil, err
	}
	if r.Places, err = placesOf(r); err != nil {
		return nil, err
	}
	if f.data != "" || f.config != "" {
		if r.Gateway, err = o.Gateway(f.data, f.config); err != nil {
			return nil, err
		}
	}
	if f.undo {
		return r, nil
	}
	if name := elsewhere[agent]; r.Scope == User && leadsAway(name, r.Places.Home) {
		return nil, fmt.Errorf("%s is set: %s reads its configuration from %s, not from the home directory, and would not "+
			"see the hooks. Unset it for good, or use --managed or --project", name, agent, os.Getenv(name))
	}
	if err := f.given(cmd, r); err != nil {
		return nil, err
	}
	if err := f.gates(cmd, r); err != nil {
		return nil, err
	}
	if r.Host, err = os.Hostname(); err != nil {
		return nil, err
	}
	if r.Command, err = command(); err != nil {
		return nil, err
	}
	r.Program, err = program()
	if cmd.Flags().Changed("wrap") {
		path := ""
		if f.wrap {
			path = r.Program
		}
		r.Wrap = &path
	}
	return r, err
}

// program is where this program lies.
func program() (string, error) {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("where this program lies is not known: %w", err)
	}
	return path, nil
}

// scope reads the flags that say whose configuration is changed.
func (f *flags) scope(r *Request) error {
	n := 0
	for scope, is := range map[Scope]bool{User: f.user, Project: f.project, Managed: f.managed} {
		if is {
			r.Scope = scope
			n++
		}
	}
	switch {
	case n > 1:
		return cli.Usage("give one of --user, --project and --managed")
	case !f.managed && f.group != "":
		return cli.Usage("--group needs --managed: other files are read by their user alone")
	case runtime.GOOS != "linux" && (f.managed || r.Agent == hook.VSCode && !f.project):
		return errors.New("this place is known on Linux only")
	case f.managed && r.UID != 0:
		return errors.New("--managed writes below /etc: run it as root")
	case f.managed && f.group == "" && !f.noKey && !f.undo:
		return cli.Usage("--managed needs --group GROUP: the group of the users who run the agent, whose hooks have to " +
			"read the key. Or give --no-key, if the gateway knows these users (socket.peers)")
	}
	if f.group == "" {
		return nil
	}
	g, err := user.LookupGroup(f.group)
	if err != nil {
		if g, err = user.LookupGroupId(f.group); err != nil {
			return cli.Usage("--group %s: there is no such group", f.group)
		}
	}
	r.Group, err = strconv.Atoi(g.Gid)
	return err
}

// placesOf are the real places. The home directory comes from the user database: an agent sets HOME as it likes.
func placesOf(r *Request) (p Places, err error) {
	home, set := os.LookupEnv("HOME")
	if err := os.Unsetenv("HOME"); err != nil { // package user falls back on it
		return p, err
	}
	u, err := user.LookupId(strconv.Itoa(r.UID))
	if set {
		err = errors.Join(err, os.Setenv("HOME", home))
	}
	if err != nil {
		return p, fmt.Errorf("the home directory of user %d is not known (%w): connect the agent with --managed", r.UID, err)
	}
	p = Places{Home: filepath.Clean(u.HomeDir), Etc: "/etc"}
	if r.Scope == Project {
		p.Project, err = os.Getwd()
		if p.Project == p.Home {
			return p, errors.New("the current directory is your home directory: change to a project, or use --user")
		}
	}
	return p, err
}

// command is what the hooks run.
func command() (c hook.Command, err error) {
	if c.Yett, err = program(); err != nil {
		return c, err
	}
	if strings.Contains(c.Yett, "/go-build") {
		return c, errors.New("`go run` removes the program that the hooks would run: build or install yett first")
	}
	if hook := filepath.Join(filepath.Dir(c.Yett), "yett-hook"); runnable(hook) { // the same code, which starts faster
		if err := sameBuild(hook); err != nil {
			return c, err
		}
		c.Yett = hook
	}
	for _, path := range []string{"/usr/bin/timeout", "/bin/timeout"} {
		if runnable(path) {
			c.Timeout = path
			return c, nil
		}
	}
	if runtime.GOOS == "linux" {
		return c, errors.New("there is no /usr/bin/timeout, which ends a hook that hangs: install coreutils")
	}
	return c, nil
}

// sameBuild refuses a program that was not built with this one: it would not know what this one writes.
func sameBuild(path string) error {
	theirs, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s is not a program of Yett: remove it, or install both again: %w", path, err)
	}
	ours, ok := debug.ReadBuildInfo()
	if !ok || buildOf(ours) == buildOf(theirs) {
		return nil
	}
	return fmt.Errorf("%s was built from %s, and this program from %s: install both again", path, buildOf(theirs),
		buildOf(ours))
}

// buildOf names the sources of a program, as far as it knows them.
func buildOf(b *debug.BuildInfo) string {
	name := b.Main.Version
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
			name += " " + s.Value
		}
	}
	return name
}

// runnable says whether there is a program.
func runnable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// given reads what replaces members of the hook's file.
func (f *flags) given(cmd *cobra.Command, r *Request) error {
	switch {
	case f.socket != "" && f.url != "":
		return cli.Usage("give --socket or --url, not both")
	case len(f.pins) > 0 && f.url == "":
		return cli.Usage("--pin needs --url")
	case f.noKey && (f.keyFile != "" || f.url != ""):
		return cli.Usage("--no-key works over a socket only, and without --key-file")
	}
	if why := hook.NoWrap(r.Agent); f.wrap && why != "" {
		return cli.Usage("--wrap: %s", why)
	}
	r.Given = hookfile.File{URL: f.url, Pins: f.pins, AgentID: f.agentID, Servers: f.servers}
	if strings.ContainsAny(f.agentID, "*/ ") {
		return cli.Usage("--agent-id %q: no spaces, no / and no *: the key is made for this agent alone", f.agentID)
	}
	if f.socket != "" {
		path, err := filepath.Abs(f.socket)
		if err != nil {
			return err
		}
		r.Given.Socket = path
	}
	if f.keyFile == "" {
		return nil
	}
	var text []byte
	var err error
	if f.keyFile == "-" {
		text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxKeyFile+1))
		if len(text) > maxKeyFile {
			err = fmt.Errorf("stdin has more than %d bytes", maxKeyFile)
		}
	} else {
		text, err = regular.ReadNamed(cmd.Context(), f.keyFile, maxKeyFile)
	}
	if err != nil {
		return fmt.Errorf("--key-file: %w", err)
	}
	if r.Given.Key = strings.TrimSpace(string(text)); r.Given.Key == "" {
		return errors.New("--key-file: there is no key in it")
	}
	return nil
}
