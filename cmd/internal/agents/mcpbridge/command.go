package mcpbridge

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/regular"
)

// flags are the command's flags.
type flags struct {
	server, config, url, keyFile string
	pins                         []string
	env                          bool
}

// Command is `yett mcp`.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "mcp --server NAME --config FILE",
		Short: "Be an MCP server on stdin and stdout that is reached through the gateway",
		Long: "MCP clients start this as the command of an MCP server. It carries each message to the server NAME at the\n" +
			"gateway (mcp.servers), which decides about each call and scans each result, and brings back what comes.\n" +
			"Messages are not changed. On stdout are messages alone; everything else is on stderr. A request that fails\n" +
			"is answered with a JSON-RPC error.\n\n" +
			"FILE is the hook's own file that `yett connect AGENT --mcp` writes: it says where the gateway is and which\n" +
			"key to use. It belongs to you or to root, and nobody else can write it. Without FILE, give --url and\n" +
			"--key-file, or --env for YETT_MCP_URL and YETT_API_KEY. Without --env nothing is taken from the environment.",
		Example: "  yett mcp --server github --config ~/.config/yett/hooks/claude-code.json\n" +
			"  yett mcp --server github --url http://127.0.0.1:8425 --key-file key",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := f.bridge(cmd.Context())
			if err != nil {
				return err
			}
			ctx, end := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer end()
			b.Stdin, b.Stdout, b.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return b.Run(ctx)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.server, "server", "", "name of the server in the gateway's mcp.servers")
	fl.StringVar(&f.config, "config", "", "the hook's own file, as an absolute path")
	fl.StringVar(&f.url, "url", "", "address of the gateway's MCP listener (mcp.listen)")
	fl.StringSliceVar(&f.pins, "pin", nil, "with --url: sha256/BASE64 of the public key of that listener's certificate")
	fl.StringVar(&f.keyFile, "key-file", "", "file with the API key")
	fl.BoolVar(&f.env, "env", false, "take the address from YETT_MCP_URL and the key from YETT_API_KEY")
	return cmd
}

// maxKeyFile is how many bytes a file with a key may have.
const maxKeyFile = 4 << 10

// bridge finds out where the gateway is.
func (f *flags) bridge(ctx context.Context) (*Bridge, error) {
	if f.server == "" {
		return nil, cli.Usage("--server is missing: name a server of the gateway's mcp.servers")
	}
	base, key, pins, owner := f.url, "", f.pins, (*uint32)(nil)
	switch {
	case f.config != "" && (f.url != "" || f.keyFile != "" || f.env):
		return nil, cli.Usage("--config says where the gateway is and which key to use: " +
			"leave --url, --key-file and --env out")
	case f.config != "":
		file, err := hookfile.Load(filepath.Clean(f.config))
		if err != nil {
			return nil, err
		}
		if file.MCPURL == "" || file.Key == "" {
			return nil, fmt.Errorf("%s has no mcp_url or no key: run `yett connect %s --mcp`", f.config, file.Agent)
		}
		base, key, pins = file.MCPURL, file.Key, file.MCPPins
		if strings.HasPrefix(base, "http:") {
			owner = file.SocketOwner
		}
	default:
		if f.env {
			if base == "" {
				base = os.Getenv("YETT_MCP_URL")
			}
			key = os.Getenv("YETT_API_KEY")
		}
		if f.keyFile != "" {
			text, err := regular.ReadNamed(ctx, f.keyFile, maxKeyFile)
			if err != nil {
				return nil, fmt.Errorf("--key-file: %w", err)
			}
			key = strings.TrimSpace(string(text))
		}
	}
	if base == "" || key == "" {
		return nil, cli.Usage("where is the gateway, and which key may ask? Give --config FILE, or --url URL and " +
			"--key-file FILE, or --env")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the key has spaces, or characters that no API key has")
	}
	return newBridge(base, f.server, key, pins, owner)
}

func newBridge(base, server, key string, pins []string, owner *uint32) (*Bridge, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("the address of the gateway must be https://HOST:PORT or http://HOST:PORT, and no more")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && !ip.IsLoopback() {
		return nil, fmt.Errorf("http would send the key in clear to %s: use https", u.Hostname())
	}
	t := &http.Transport{Proxy: nil, DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	dial := (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	t.DialContext = dial
	if owner != nil {
		t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialOwned(ctx, dial, network, addr, *owner)
		}
	}
	if len(pins) > 0 {
		if err := pin(t.TLSClientConfig, u.Scheme, pins); err != nil {
			return nil, err
		}
	}
	return &Bridge{URL: u.Scheme + "://" + u.Host + "/mcp/" + url.PathEscape(server), Key: key,
		Client: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // it would send the key elsewhere
		}}}, nil
}

// pin lets a configuration know the gateway by its public key alone.
func pin(c *tls.Config, scheme string, pins []string) error {
	if scheme != "https" {
		return cli.Usage("--pin needs an https address")
	}
	known := map[[sha256.Size]byte]bool{}
	for _, s := range pins {
		sum, ok := hookfile.PinOf(s)
		if !ok {
			return cli.Usage("--pin %s: expected sha256/ and 44 characters of base64", s)
		}
		known[sum] = true
	}
	c.InsecureSkipVerify = true // the pin says more than a chain: it names the key itself
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 || !known[sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo)] {
			return errors.New("the server at this address has another public key than is pinned")
		}
		return nil
	}
	return nil
}

// dialOwned connects to a port of this machine on which a certain user listens, and nobody else: it looks before and
// after, as the key must not go to whoever listens while the gateway does not.
func dialOwned(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), network, addr string,
	owner uint32,
) (net.Conn, error) {
	if err := listensAs(addr, owner); err != nil {
		return nil, err
	}
	c, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if err := listensAs(addr, owner); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
