// Package hookfile owns the file that a hook of a coding agent trusts: where the gateway is, how it is known, and the
// key. `yett connect` writes it and `yett hook` reads it. It must never take any of that from the environment, the
// working directory or a project, and must refuse a file that somebody else can write: whoever can point a hook at a
// gateway of their own can permit everything. Paths come from the guard line; nothing else is read.
package hookfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/sdk/exact"
)

// MaxSize is how many bytes such a file may have.
const MaxSize = 64 << 10

// Limits of the members.
const (
	MaxWait    = 45 * time.Second
	maxPins    = 8
	maxServers = 256
	maxText    = 256
	maxSocket  = 107
)

// nobody is the user id that the kernel shows in place of every user who is not known in a user namespace.
const nobody = 65534

// Pending says what becomes of a call that still waits for a person when the hook has to answer.
type Pending string

// What becomes of it. The zero Pending is Refuse.
const (
	Refuse  Pending = "refuse"  // refuse it, and tell the model that it may repeat the call
	Ask     Pending = "ask"     // let the person at the agent decide, where the agent can ask
	Suspend Pending = "suspend" // end the run so that it can be resumed with the call, where the agent can
)

// File is what a hook trusts. Exactly one of Socket and URL is given.
type File struct {
	// Agent is the agent whose hooks read this file, as `yett hook AGENT` names it. Another agent's hook refuses it.
	Agent string `json:"agent"`
	// Socket is the gateway's Unix socket for agents, a clean absolute path of at most 107 bytes.
	Socket string `json:"socket,omitempty"`
	// SocketOwner is the user id that the gateway runs as. A socket that another user listens on is refused. Always given
	// with Socket.
	SocketOwner *uint32 `json:"socket_owner,omitempty"`
	// URL is the gateway's https address.
	URL string `json:"url,omitempty"`
	// Pins are the public keys that the gateway's certificate may have, as sha256/BASE64 of the key's SubjectPublicKeyInfo
	// (RFC 7469, 2.4): 1 to 8 of them, always given with URL.
	Pins []string `json:"pins,omitempty"`
	// MCPURL is the address of the gateway's MCP listener: https with MCPPins, or http on this machine, where SocketOwner
	// is the user that must listen there.
	MCPURL string `json:"mcp_url,omitempty"`
	// MCPPins are the public keys that the certificate of that listener may have, written as Pins.
	MCPPins []string `json:"mcp_pins,omitempty"`
	// Key is the API key. Over a socket it may be missing where the gateway maps the agent's user to a key.
	Key string `json:"key,omitempty"`
	// AgentID is who asks; Agent if empty. The kind of a subagent is appended to it with a slash.
	AgentID string `json:"agent_id,omitempty"`
	// Wait is how long a hook waits for a person, at most 45 s and never longer than the agent lets a hook run. nil is the
	// longest.
	Wait *Duration `json:"wait,omitempty"`
	// Pending says what becomes of a call that nobody has decided by then.
	Pending Pending `json:"pending,omitempty"`
	// Allow makes a permit skip the agent's own question to its user too, where the agent has a word for it.
	Allow bool `json:"allow,omitempty"`
	// Wrap is the yett binary, as a clean absolute path: permitted shell commands are wrapped in its exec, which scans
	// what they print. Empty wraps none. The agent then matches its user's own rules against the wrapped line, so Wrap
	// and Allow exclude each other.
	Wrap string `json:"wrap,omitempty"`
	// Servers are the names of the agent's MCP servers: they tell server and tool apart where an agent joins both.
	Servers []string `json:"mcp_servers,omitempty"`
	// Gated are the MCP servers that are reached through Yett's own MCP gateway: that decides, and the hook does not ask
	// a second time.
	Gated []string `json:"gated_mcp_servers,omitempty"`
}

// Duration is a time as Go writes it: "45s".
type Duration time.Duration

// MarshalText writes it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("expected a time such as 45s")
	}
	*d = Duration(v)
	return nil
}

// Load reads and checks a file. It refuses one that a user other than root and the caller owns, that others can write,
// or, unless root owns it, that others can read. Its errors name the file and what to do.
func Load(path string) (*File, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return nil, fmt.Errorf("the hook's file: expected a clean absolute path, got %q", path)
	}
	f, info, err := regular.Sized(path, MaxSize)
	if err != nil {
		return nil, fmt.Errorf("cannot read the hook's file: %w", err)
	}
	defer f.Close()
	if why := unsafe(info, os.Geteuid()); why != "" {
		return nil, fmt.Errorf("the hook's file %s %s", path, why)
	}
	text := make([]byte, MaxSize+1)
	n, err := f.ReadAt(text, 0)
	if n > MaxSize || err == nil {
		return nil, fmt.Errorf("the hook's file %s has more than %d bytes", path, MaxSize)
	}
	out, err := Parse(text[:n])
	if err != nil {
		return nil, fmt.Errorf("the hook's file %s: %w", path, err)
	}
	if out.Key != "" && info.Mode().Perm()&0o004 != 0 {
		return nil, fmt.Errorf("the hook's file %s holds a key and can be read by everybody: chmod o-r it", path)
	}
	return out, nil
}

// unsafe says why a file must not be trusted by a process of this user, "" if it can.
func unsafe(info fs.FileInfo, uid int) string {
	owner, known := ownerOf(info)
	switch mode := info.Mode().Perm(); {
	case !known:
		return "has no owner that this system can tell"
	case owner != 0 && owner != uid:
		return fmt.Sprintf("belongs to user %d: it must be root's, or that of the user who runs the agent", owner)
	case mode&0o022 != 0:
		return "can be written by others: chmod go-w it"
	case mode&0o044 != 0 && owner != 0:
		return "can be read by others: chmod 600 it"
	}
	return ""
}

// Parse reads and checks the text of a file: strict JSON, no unknown members.
func Parse(text []byte) (*File, error) {
	var doc exact.Doc
	if err := doc.Parse(string(text), exact.DefaultLimits); err != nil {
		return nil, err
	}
	if k := doc.Root().Kind(); k != exact.Object {
		return nil, fmt.Errorf("expected an object, got %s", k)
	}
	for name := range doc.Root().Members() {
		if !known[name] {
			return nil, fmt.Errorf("unknown member %q", name)
		}
	}
	var f File
	if err := json.Unmarshal(text, &f); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, fmt.Errorf("%s: a %s is not what it takes", kind.Field, kind.Value)
		}
		return nil, err
	}
	return &f, f.Check()
}

// Marshal writes a file that Parse reads, with a line for each member.
func (f *File) Marshal() ([]byte, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(f)
	return b.Bytes(), err
}

// known are the members of a file.
var known = map[string]bool{"agent": true, "socket": true, "socket_owner": true, "url": true, "pins": true, "key": true,
	"agent_id": true, "wait": true, "pending": true, "allow": true, "wrap": true, "mcp_servers": true,
	"gated_mcp_servers": true, "mcp_url": true, "mcp_pins": true}

// Check says what is wrong with a file, by the member's name.
func (f *File) Check() error {
	if err := f.place(); err != nil {
		return err
	}
	switch {
	case f.Agent == "":
		return errors.New("agent is missing: name the agent whose hooks read this file")
	case f.Key == "" && f.URL != "":
		return errors.New("key is missing: a gateway that is reached by url wants one")
	case strings.ContainsFunc(f.Key, func(r rune) bool { return r <= ' ' || r > '~' }) || len(f.Key) > maxText:
		return fmt.Errorf("key: an API key has at most %d characters of printable ASCII, without spaces", maxText)
	case len(f.AgentID) > maxText:
		return fmt.Errorf("agent_id has %d bytes, at most %d", len(f.AgentID), maxText)
	case f.Wait != nil && (*f.Wait < 0 || time.Duration(*f.Wait) > MaxWait):
		return fmt.Errorf("wait is %v, expected 0s to %v", time.Duration(*f.Wait), MaxWait)
	case f.Wrap != "" && (!filepath.IsAbs(f.Wrap) || filepath.Clean(f.Wrap) != f.Wrap):
		return fmt.Errorf("wrap: expected the yett binary as a clean absolute path, got %q", f.Wrap)
	case f.Wrap != "" && f.Allow:
		return errors.New("wrap and allow: give one of them; the agent's own rules do not know a command that is wrapped, " +
			"and with allow nobody would be asked about what they deny")
	}
	switch f.Pending {
	case "", Refuse, Ask, Suspend:
	default:
		return fmt.Errorf("pending: expected refuse, ask or suspend, got %q", string(f.Pending))
	}
	return errors.Join(f.mcpPlace(), names("mcp_servers", f.Servers), names("gated_mcp_servers", f.Gated))
}

// mcpPlace checks where the MCP listener is and how it is known.
func (f *File) mcpPlace() error {
	if f.MCPURL == "" {
		if len(f.MCPPins) > 0 {
			return errors.New("mcp_pins: belong to mcp_url")
		}
		return nil
	}
	u, err := url.Parse(f.MCPURL)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.Trim(u.Path, "/") != "":
	case u.Scheme == "https":
		return checkPins("mcp_pins", f.MCPPins)
	case u.Scheme == "http" && len(f.MCPPins) > 0:
		return errors.New("mcp_pins: belong to an https address in mcp_url")
	case u.Scheme == "http" && f.SocketOwner != nil && net.ParseIP(u.Hostname()).IsLoopback():
		return nil
	}
	return errors.New("mcp_url: expected https://HOST:PORT, or with socket_owner http://127.0.0.1:PORT; over http any " +
		"program could answer in the gateway's place")
}

// place checks where the gateway is and how it is known.
func (f *File) place() error {
	switch {
	case f.Socket == "" && f.URL == "":
		return errors.New("socket or url is missing: say where the gateway is")
	case f.Socket != "" && (f.URL != "" || len(f.Pins) > 0):
		return errors.New("socket and url: give one of them; pins belong to url")
	case f.Socket != "" && (!filepath.IsAbs(f.Socket) || filepath.Clean(f.Socket) != f.Socket):
		return fmt.Errorf("socket: expected a clean absolute path, got %q", f.Socket)
	case len(f.Socket) > maxSocket:
		return fmt.Errorf("socket has %d bytes; the path of a Unix socket has at most %d", len(f.Socket), maxSocket)
	case f.Socket != "" && f.SocketOwner == nil:
		return errors.New("socket_owner is missing: the number of the user that the gateway runs as")
	case f.Socket != "" && (*f.SocketOwner == nobody || *f.SocketOwner == math.MaxUint32):
		return fmt.Errorf("socket_owner is %d, which stands for users that are not known: name the gateway's own user",
			*f.SocketOwner)
	case f.Socket != "":
		return nil
	case f.SocketOwner != nil:
		return errors.New("socket_owner: belongs to socket, not to url")
	}
	u, err := url.Parse(f.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.Trim(u.Path, "/") != "" {
		return errors.New("url: expected https://HOST:PORT; over http any program could answer in the gateway's place")
	}
	return checkPins("pins", f.Pins)
}

func checkPins(member string, pins []string) error {
	if len(pins) == 0 || len(pins) > maxPins {
		return fmt.Errorf("%s: expected 1 to %d, got %d: sha256/BASE64 of the gateway's public key", member, maxPins,
			len(pins))
	}
	for i, pin := range pins {
		if _, ok := PinOf(pin); !ok {
			return fmt.Errorf("%s[%d]: expected sha256/ and 44 characters of base64", member, i)
		}
	}
	return nil
}

// PinOf reads a pin.
func PinOf(s string) (sum [sha256.Size]byte, ok bool) {
	text, is := strings.CutPrefix(s, "sha256/")
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if !is || err != nil || len(b) != len(sum) {
		return sum, false
	}
	return [sha256.Size]byte(b), true
}

func names(member string, list []string) error {
	if len(list) > maxServers {
		return fmt.Errorf("%s has %d names, at most %d", member, len(list), maxServers)
	}
	for i, s := range list {
		if s == "" || len(s) > maxText {
			return fmt.Errorf("%s[%d]: expected a name of 1 to %d bytes", member, i, maxText)
		}
	}
	return nil
}
