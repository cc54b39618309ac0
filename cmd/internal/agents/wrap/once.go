package wrap

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/sdk/exact"
)

// TicketLife is how long after its decision a command can begin: an agent may ask its user in between. A kill does not
// reach a command that has been permitted, so it is short.
const TicketLife = 60 * time.Second

const maxTicket = 1 << 20

// Ticket lets one command run once. The hook issues it when the gateway has permitted the command.
type Ticket struct {
	// Command is what was decided on, byte for byte.
	Command string `json:"command"`
	// Shell is what runs the command where the agent's own shell cannot.
	Shell string `json:"shell"`
	// Tool, AgentID and SessionID are those of the call: the output is scanned as theirs.
	Tool      string `json:"tool"`
	AgentID   string `json:"agent_id"`
	SessionID string `json:"session_id,omitempty"`
	// Dir is where the command has to run; anywhere if empty, for an agent that does not say.
	Dir string `json:"dir,omitempty"`
	// Expires is when the ticket ends. Issue sets it.
	Expires time.Time `json:"expires"`
	// Digest is the SHA-256 of the other members: a ticket that is torn or was changed is refused. Issue sets it.
	Digest string `json:"digest"`
}

var ticketMembers = map[string]bool{"command": true, "shell": true, "tool": true, "agent_id": true, "session_id": true,
	"dir": true, "expires": true, "digest": true}

// Tickets is the directory of the tickets that belong to a hook's file. It belongs to the agent's user alone: it lies
// beside the file where that user owns the file's directory, else (a managed file) below /run/user, or below the user's
// home, which the user database names.
func Tickets(hookFile string) string {
	name := strings.TrimSuffix(filepath.Base(hookFile), ".json") + ".tickets"
	dir, uid := filepath.Dir(hookFile), os.Geteuid()
	if owner(dir) == uid {
		return filepath.Join(dir, name)
	}
	if run := fmt.Sprintf("/run/user/%d", uid); owner(run) == uid {
		return filepath.Join(run, "yett-"+name)
	}
	if u, err := user.LookupId(fmt.Sprint(uid)); err == nil && owner(u.HomeDir) == uid {
		return filepath.Join(u.HomeDir, ".cache", "yett", name)
	}
	return fmt.Sprintf("/tmp/yett-%d-%s", uid, name) // private refuses one that somebody else has made
}

// owner gives the user id that a directory belongs to, or -1 if there is no such directory.
func owner(dir string) int {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return -1
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// Pipes is the directory of a ticket's pipes, see package execrun.
func Pipes(hookFile, id string) string { return filepath.Join(Tickets(hookFile), id+".run") }

// Issue writes a ticket and gives its id.
func Issue(hookFile string, t Ticket) (id string, err error) {
	dir := Tickets(hookFile)
	err = os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) { // .cache/yett
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("cannot make the directory of tickets: %w: make it for the agent's user alone", err)
	}
	if err := private(dir); err != nil {
		return "", err
	}
	sweep(dir, time.Now())
	t.Expires = time.Now().Add(TicketLife).UTC().Truncate(time.Millisecond)
	t.Digest = t.sum()
	text, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	var back Ticket
	if json.Unmarshal(text, &back) != nil || back != t { // JSON holds no bytes that are no UTF-8
		return "", errors.New("the command is not UTF-8 text")
	}
	if len(text) > maxTicket {
		return "", fmt.Errorf("the ticket has %d bytes, at most %d", len(text), maxTicket)
	}
	var raw [16]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", err
	}
	id = hex.EncodeToString(raw[:])
	f, err := os.OpenFile(filepath.Join(dir, id), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	return id, errors.Join(err, f.Close())
}

// sum is the digest of the other members.
func (t Ticket) sum() string {
	t.Digest = ""
	text, err := json.Marshal(t)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// private checks that a directory of tickets is the user's alone.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("cannot read the directory of tickets: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is no directory: tickets belong there; remove it", dir)
	case !ok || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("the directory of tickets %s belongs to another user: remove it", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("the directory of tickets %s is open to others: chmod 700 it", dir)
	}
	return nil
}

// sweep removes what nobody has used in time.
func sweep(dir string, now time.Time) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list { // tickets, and the pipes of filters that have died
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > 2*TicketLife {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // the next ticket tries again
		}
	}
}

var errNoTicket = errors.New("the ticket is missing or was used: a ticket is good for one command, once")

// Take consumes a ticket: nobody can use it after this, whether it fits or not.
func Take(hookFile, id string, now time.Time) (*Ticket, error) {
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 || strings.ToLower(id) != id {
		return nil, errors.New("--ticket: expected 32 hexadecimal digits")
	}
	dir := Tickets(hookFile)
	if err := private(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, id)
	f, info, err := regular.Sized(path, maxTicket)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoTicket
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the ticket: %w", err)
	}
	defer f.Close()
	if err := os.Remove(path); err != nil { // of two that have opened it, one removes it
		return nil, errNoTicket
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return nil, errors.New("the ticket is not the user's alone")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTicket+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the ticket: %w", err)
	}
	t, err := parseTicket(text)
	if err != nil {
		return nil, fmt.Errorf("the ticket is broken: %w", err)
	}
	if now.After(t.Expires) || t.Expires.After(now.Add(2*TicketLife)) {
		return nil, fmt.Errorf("the ticket has expired: the command has to begin within %v of its decision", TicketLife)
	}
	return t, nil
}

// parseTicket reads a ticket strictly.
func parseTicket(text []byte) (*Ticket, error) {
	var doc exact.Doc
	if err := doc.Parse(string(text), exact.DefaultLimits); err != nil {
		return nil, err
	}
	if k := doc.Root().Kind(); k != exact.Object {
		return nil, fmt.Errorf("expected an object, got %s", k)
	}
	for name := range doc.Root().Members() {
		if !ticketMembers[name] {
			return nil, fmt.Errorf("unknown member %q", name)
		}
	}
	t := new(Ticket)
	if err := json.Unmarshal(text, t); err != nil {
		return nil, err
	}
	if t.Command == "" || t.Tool == "" || t.Digest != t.sum() {
		return nil, errors.New("it is not whole")
	}
	return t, nil
}

// Fits says why a ticket is not for this command, in this directory.
func (t *Ticket) Fits(command string) error {
	if t.Command != command {
		return errors.New("the ticket is for another command")
	}
	if t.Dir == "" {
		return nil
	}
	here, err := os.Stat(".")
	if err != nil {
		return fmt.Errorf("the working directory: %w", err)
	}
	if there, err := os.Stat(t.Dir); err != nil || !os.SameFile(here, there) {
		return errors.New("the ticket is for another working directory")
	}
	return nil
}

// FitsArgs is Fits for a command that a shell runs as a child.
func (t *Ticket) FitsArgs(argv []string) error {
	if len(argv) != 3 || argv[0] != t.Shell || argv[1] != "-c" {
		return fmt.Errorf("the ticket is for %s -c COMMAND", t.Shell)
	}
	return t.Fits(argv[2])
}
