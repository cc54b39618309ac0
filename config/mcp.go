package config

import (
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/config/strict"
)

// How the gateway answers a call of an MCP tool that it does not permit.
const (
	MCPResult = "result"
	MCPError  = "error"
)

// What becomes of a part of a tool's output that is no text.
const (
	MCPPass = "pass"
	MCPDeny = "deny"
	MCPScan = "scan"
)

// Which definition of a tool counts without an operator.
const (
	MCPPinFirstUse = "first_use"
	MCPPinOperator = "operator"
)

// MCP is the gateway that stands between MCP clients and MCP servers.
type MCP struct {
	Enabled   bool     `koanf:"enabled" default:"false" doc:"Whether MCP clients are served at all."`
	Listen    string   `koanf:"listen" default:"127.0.0.1:8425" format:"addr" doc:"Address and port for MCP clients. Each server is at /mcp/NAME. Port 0 takes a free one. Off loopback only with tls."`
	TLS       TLS      `koanf:"tls" doc:"Certificate of this listener. Without it the listener is in clear and must be on loopback."`
	Hosts     []string `koanf:"hosts" empty:"ok" example:"[\"mcp.example.com\"]" doc:"Names under which clients reach the listener, beside its address. A request for another name, or from a page of another origin, is refused."`
	Wait      Duration `koanf:"wait" default:"45s" min:"0s" max:"10m" doc:"How long a call that waits for a person is held open for a client that cannot show a page. Clients give up after about a minute."`
	Refusal   string   `koanf:"refusal" default:"result" enum:"result|error" doc:"How a denied call of a tool is answered: result, as a failed tool whose text the model reads, or error, as JSON-RPC error -32001."`
	MaxResult Size     `koanf:"max_result" default:"8MiB" min:"64KiB" max:"64MiB" doc:"Largest answer or event of a server. A larger one is not passed on."`
	Images    string   `koanf:"images" default:"pass" enum:"pass|deny" doc:"Images in results: nothing can look into them. pass passes them on, deny withholds the result."`
	Audio     string   `koanf:"audio" default:"pass" enum:"pass|deny" doc:"The same of sounds."`
	Blobs     string   `koanf:"blobs" default:"scan" enum:"pass|deny|scan" doc:"Binary resources. scan reads one that is text in truth as text, and withholds the result if anything is found there; others pass."`

	Pin string `koanf:"pin" default:"first_use" enum:"first_use|operator" doc:"Which definition of a tool counts. first_use: the first one that the server gives. operator: none before an operator accepts it (yett mcp accept). In both cases a later one that differs is refused until an operator accepts it."`

	OAuth MCPOAuth `koanf:"oauth" doc:"Access tokens of an OAuth authorization server, beside API keys."`

	Servers map[string]MCPServer `koanf:"servers" doc:"MCP servers by name. Their tools are mcp.NAME/TOOL in rules."`
}

// BinaryPolicy says what becomes of a part of a result that is no text: an "image", an "audio" or a "blob".
func (m *MCP) BinaryPolicy(kind string) string {
	switch kind {
	case "image":
		return m.Images
	case "audio":
		return m.Audio
	}
	return m.Blobs
}

// MCPServer is one MCP server: a URL, or a command that the gateway runs.
type MCPServer struct {
	URL     string               `koanf:"url" format:"web" example:"https://mcp.example.com/mcp" doc:"Streamable HTTP endpoint. Exactly one of url and command is set."`
	CA      Path                 `koanf:"ca" example:"/etc/yett/mcp-ca.crt" doc:"With url: PEM file with the authorities that sign the server's certificate, in place of the system's."`
	Headers map[string]SecretRef `koanf:"headers" doc:"With url: headers by name that the server needs, such as Authorization, each by reference. No header of a client's that names who it is is ever passed on."`
	Command []string             `koanf:"command" empty:"ok" example:"[\"/usr/local/bin/github-mcp\", \"stdio\"]" doc:"Program that speaks MCP on its standard input and output, and its arguments. The path is absolute. Each session of a client has a process of its own."`
	Digest  string               `koanf:"digest" format:"digest" empty:"ok" example:"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" doc:"With command: SHA-256 of the program's file, as sha256sum prints it. A file that differs is never run. Without it, the file as it is when the gateway starts."`
	Env     Values               `koanf:"env" doc:"With command: the whole environment of the process, names and texts. No place for secrets."`
	Secrets map[string]SecretRef `koanf:"secrets" doc:"With command: variables of the environment by name that hold secrets, each by reference."`
	User    PluginUser           `koanf:"user" doc:"With command: who the process runs as, where the gateway may switch. The gateway's own user if not given."`
	Confine string               `koanf:"confine" enum:"best_effort|required|off" example:"required" doc:"With command: what the kernel takes away, as for plugins; best_effort if not given."`
	Paths   PluginPaths          `koanf:"paths" doc:"With command: files and directories that the process may use beside those of the system and its own working directory."`
	Network []Port               `koanf:"network" one:"ok" most:"256" example:"[443]" doc:"With command: none, or the TCP ports that the process may connect to. Not restricted if not given."`
	Memory  Size                 `koanf:"memory" default:"1GiB" min:"16MiB" max:"64GiB" doc:"With command: most memory of one process."`
	Tools   []string             `koanf:"tools" empty:"ok" example:"[\"search_*\"]" doc:"Patterns of the tools that clients may see and call. All if not given; rules decide in any case."`
	Timeout Duration             `koanf:"timeout" default:"10m" min:"1s" max:"24h" doc:"How long one request may take."`
}

// Forms are those of the texts here.
func (MCPServer) Forms() map[string]strict.Form { return webForm }

// webForm is an address of the web without user and fragment.
var webForm = map[string]strict.Form{"web": {Check: func(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return strict.Wants("an address that begins with https:// or http://, without a user and a fragment", s)
	}
	return strict.Printable(s, "")
}}}

// Process is the server's process as a plugin process is described. It may start others: many are scripts.
func (s *MCPServer) Process() *Plugin {
	p := &Plugin{Digest: s.Digest, Env: s.Env, User: s.User, Paths: s.Paths, Network: s.Network, Confine: s.Confine}
	if p.Confine == "" {
		p.Confine = ConfineBest
	}
	if len(s.Command) > 0 {
		p.Exec = Path(s.Command[0])
	}
	return p
}

// maxMCPServers bounds the servers of one gateway.
const maxMCPServers = 256

func (l *loader) finishMCP(m *MCP) {
	r := l.Report
	m.TLS.validate(r, "mcp.tls")
	m.OAuth.validate(r)
	if m.Enabled && strict.CheckAddr(m.Listen) == nil && !loopback(m.Listen) && !m.TLS.Enabled() {
		r.Errorf("mcp.listen", "%s is not a loopback address; without mcp.tls only loopback is served",
			strict.Literal(m.Listen))
	}
	if len(m.Hosts) > maxHosts {
		r.Errorf("mcp.hosts", "has %d entries; at most %d are read", len(m.Hosts), maxHosts)
	}
	if len(m.Servers) > maxMCPServers {
		r.Errorf("mcp.servers", "has %d entries; at most %d are read", len(m.Servers), maxMCPServers)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Servers)) {
		s := m.Servers[name]
		l.finishMCPServer(&s, strict.Join("mcp.servers", name))
		m.Servers[name] = s
	}
}

func (l *loader) finishMCPServer(s *MCPServer, key string) {
	r := l.Report
	if (s.URL == "") == (len(s.Command) == 0) {
		r.Errorf(key, "needs exactly one of url and command")
		return
	}
	refuse := func(what string, names ...string) {
		for _, name := range names {
			if at := strict.Join(key, name); r.Origins.Written(at) {
				r.Errorf(at, "allowed only with %s", what)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		at := strict.Join(strict.Join(key, "headers"), name)
		ref := s.Headers[name]
		if l.resolveSecret(&ref, at) && strings.ContainsFunc(ref.value, unsent) {
			r.Errorf(at, "the value has characters that no header can carry")
		}
		if !headerName(name) {
			r.Errorf(at, "is no name of a header that a server can be sent: Host, Content-Length, Connection and those of "+
				"MCP are the gateway's own")
		}
		s.Headers[name] = ref
	}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		at := strict.Join(strict.Join(key, "secrets"), name)
		ref := s.Secrets[name]
		if l.resolveSecret(&ref, at) && strings.ContainsRune(ref.value, 0) {
			r.Errorf(at, "the value has a zero byte, which no environment can carry")
		}
		if !envName.MatchString(name) {
			r.Errorf(at, "a name has 1 to 256 letters, digits and _ and begins with no digit")
		}
		s.Secrets[name] = ref
	}
	if s.URL != "" {
		refuse("command", "digest", "env", "secrets", "user.uid", "user.gid", "confine", "paths.read", "paths.write",
			"network", "memory")
		return
	}
	refuse("url", "ca", "headers")
	if s.User.GID == 0 {
		s.User.GID = s.User.UID
	}
	switch program := s.Command[0]; {
	case !filepath.IsAbs(program):
		r.Errorf(strict.Join(key, "command[0]"), "%s is not absolute: write the whole path of the program",
			strict.Literal(program))
	case missing(program):
		r.Errorf(strict.Join(key, "command[0]"), "there is no file %s", program)
	}
	for i, arg := range s.Command {
		if strings.ContainsRune(arg, 0) || strict.InClear(key, arg) {
			r.Errorf(strict.Join(key, "command["+strconv.Itoa(i)+"]"), "has a zero byte or looks like a secret; use secrets, "+
				"which go into the environment")
		}
	}
	p := s.Process()
	p.checkEnv(r, strict.Join(key, "env"))
	p.checkConfine(r, key)
}

// ownHeaders are what the gateway sends itself, or what belongs to one connection.
var ownHeaders = []string{"host", "content-length", "content-type", "connection", "transfer-encoding", "accept",
	"accept-encoding", "te", "trailer", "upgrade", "last-event-id", "mcp-session-id", "mcp-protocol-version",
	"mcp-method", "mcp-name"}

func headerName(name string) bool {
	ok := name != "" && !slices.Contains(ownHeaders, strings.ToLower(name))
	for _, c := range []byte(name) {
		ok = ok && (c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}
	return ok
}
