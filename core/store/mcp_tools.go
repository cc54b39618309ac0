package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// TypeTool is the type of the records that tell what became of the definition of an MCP tool.
const TypeTool = "mcp_tool"

// The states in such a record.
const (
	ToolPinned   = "pinned"   // it was seen for the first time, and counts
	ToolNew      = "new"      // it was seen for the first time, and waits for an operator
	ToolChanged  = "changed"  // it differs from what counts, and waits for an operator
	ToolRestored = "restored" // it is again what counts
	ToolAccepted = "accepted" // an operator has accepted it
)

// The limits of tool definitions.
const (
	MaxToolText = 256 << 10 // bytes of one definition

	maxTools         = 100_000
	maxToolsOfServer = 10_000
	maxToolServer    = 256  // bytes of a server's name
	maxToolName      = 4096 // bytes of a tool's name
	// A server that gives another definition each time writes so many of them in an hour. What comes then is not noted,
	// and the tool stays withheld.
	maxToolTurns = 30
	toolTurnTime = time.Hour
)

// Tool is what is known of the definition of one MCP tool. It is never changed.
type Tool struct {
	Server   string     `json:"-"` // the row's key
	Name     string     `json:"-"`
	Accepted Definition `json:"accepted,omitzero"` // what counts; zero: no operator has accepted one yet
	Pending  Definition `json:"pending,omitzero"`  // the newest one, if it is not what counts
	Before   Definition `json:"before,omitzero"`   // what an operator has replaced last

	turns int // how often Pending went since from; in memory only
	from  time.Time
}

// Definition names one definition of a tool. Its text has a row of its own.
type Definition struct {
	Digest string    `json:"digest"`   // of the definition as the server sent it
	Text   string    `json:"text_sum"` // SHA-256 of the text that is kept, hex
	At     time.Time `json:"at"`       // when it was seen first, or accepted
	By     string    `json:"by"`       // the principal who asked for the list, or who accepted it
}

type toolName struct{ server, tool string }

// toolTable holds all tools in memory, without their texts.
type toolTable struct {
	next map[toolName]*Tool // with what is on its way to the disk; the sequencer's alone, as the next one
	of   map[string]int     // tools of each server

	mu   sync.RWMutex
	disk map[toolName]*Tool
}

// SeeTool notes the definition of a tool as a server gives it now. The first one counts. A different one is kept beside
// it until an operator accepts it, or until the server gives the old one again. If it is what was seen last, nothing is
// written.
type SeeTool struct {
	Server, Tool string
	Digest       string // of the definition as sent: sha256: and 64 hex digits
	Text         string // as it may be kept
	Ask          bool   // an operator has to accept the first one too
	By           Who

	Counts bool // out: it is the definition that counts
}

func (c *SeeTool) apply(tx *tx) error {
	name := toolName{c.Server, c.Tool}
	was := tx.s.tools.next[name]
	if err := c.check(tx, was); err != nil {
		return err
	}
	seen := Definition{Digest: c.Digest, Text: textSum(c.Text), At: tx.now, By: c.By.Principal}
	is, state := &Tool{Server: strings.Clone(c.Server), Name: strings.Clone(c.Tool)}, "" // not a part of a whole page
	if was != nil {
		*is = *was
	}
	c.Counts = is.Accepted.Digest == c.Digest
	switch {
	case was == nil && c.Ask:
		state, is.Pending = ToolNew, seen
	case was == nil:
		state, is.Accepted, c.Counts = ToolPinned, seen, true
	case is.Pending.Digest == c.Digest, c.Counts && is.Pending.Digest == "":
		return nil
	case c.Counts:
		state, is.Pending = ToolRestored, Definition{}
	default:
		state, is.Pending = ToolChanged, seen
	}
	if was != nil && was.Pending.Digest != "" {
		is.turn(tx.now)
	}
	if is.Before.Digest == c.Digest && !c.Counts {
		is.Before = Definition{} // its text is written anew, and may be kept with less
	}
	if !c.Counts || state == ToolPinned {
		tx.set(name.row(prefixToolText, c.Digest), []byte(c.Text))
	}
	tx.putTool(was, is)
	tx.onSync = append(tx.onSync, func(bool) { tx.s.tools.keep(is) })
	tx.toolRecord(is, state, c.Digest, c.By)
	return nil
}

func (c *SeeTool) check(tx *tx, was *Tool) error {
	if err := checkTool(c.Server, c.Tool, c.Digest); err != nil {
		return err
	}
	switch t := &tx.s.tools; {
	case c.Text == "":
		return sdk.FieldErrf(sdk.CodeInvalidField, "text", "a definition without a text cannot be shown to anybody")
	case len(c.Text) > MaxToolText:
		return sdk.FieldErrf(sdk.CodeInvalidField, "text", "the definition of the tool has %d bytes, and the limit is %d",
			len(c.Text), MaxToolText)
	case was == nil && len(t.next) >= maxTools:
		return sdk.FieldErrf(sdk.CodeTooManyRequests, "tool", "there are definitions of %d tools already, the most there "+
			"can be; let servers list only tools that are needed (mcp.servers.NAME.tools)", maxTools)
	case was == nil && t.of[c.Server] >= maxToolsOfServer:
		return sdk.FieldErrf(sdk.CodeTooManyRequests, "tool", "there are definitions of %d tools of the server %s already, "+
			"the most that one can have; list only tools that are needed (mcp.servers.NAME.tools)", maxToolsOfServer, c.Server)
	case was != nil && was.Pending.Digest != "" && was.Pending.Digest != c.Digest && was.spent(tx.now):
		return sdk.FieldErrf(sdk.CodeTooManyRequests, "tool", "the definition of the tool has changed %d times within %v; "+
			"it is not noted before that time is over", maxToolTurns, toolTurnTime)
	}
	return nil
}

func checkTool(server, tool, digest string) error {
	if err := wire.CheckName("server", server, maxToolServer, true); err != nil {
		return err
	}
	if err := wire.CheckName("tool", tool, maxToolName, true); err != nil {
		return err
	}
	digits, ok := strings.CutPrefix(digest, "sha256:")
	if !ok || len(digits) != 2*sha256.Size || strings.Trim(digits, "0123456789abcdef") != "" {
		return sdk.FieldErrf(sdk.CodeInvalidField, "digest", "expected sha256: and 64 hex digits, got %.80q", digest)
	}
	return nil
}

// turn counts that a pending definition has gone.
func (t *Tool) turn(now time.Time) {
	if now.Sub(t.from) >= toolTurnTime {
		t.from, t.turns = now, 0
	}
	t.turns++
}

func (t *Tool) spent(now time.Time) bool {
	return t.turns >= maxToolTurns && now.Sub(t.from) < toolTurnTime
}

// AcceptTool makes the pending definition of a tool the one that counts. One that was accepted already is no error.
type AcceptTool struct {
	Server, Tool string
	Digest       string // of the pending definition that the operator was shown
	By           Who

	was, is *Tool
}

func (c *AcceptTool) apply(tx *tx) error {
	was := tx.s.tools.next[toolName{c.Server, c.Tool}]
	switch {
	case was == nil:
		return sdk.FieldErrf(sdk.CodeNotFound, "tool", "no definition of a tool %q of a server %q was seen; see yett mcp "+
			"tools", c.Tool, c.Server)
	case was.Pending.Digest == "" && was.Accepted.Digest == c.Digest:
		return nil // it was done, and only the answer came too late; or nobody has to
	case was.Pending.Digest == "":
		return sdk.FieldErrf(sdk.CodeConflict, "digest", "no definition of this tool waits for an operator: what counts "+
			"is %s", was.Accepted.Digest)
	case was.Pending.Digest != c.Digest:
		return sdk.FieldErrf(sdk.CodeConflict, "digest", "the definition of this tool has changed again: what waits now is "+
			"%s; look at it with yett mcp tools", was.Pending.Digest)
	}
	is := *was
	is.Accepted, is.Pending, is.Before = was.Pending, Definition{}, was.Accepted
	is.Accepted.At, is.Accepted.By = tx.now, c.By.Principal
	c.was, c.is = was, &is
	tx.putTool(was, &is)
	tx.onSync = append(tx.onSync, func(refused bool) {
		if !refused { // else it is taken back
			tx.s.tools.keep(&is)
		}
	})
	tx.toolRecord(&is, ToolAccepted, c.Digest, c.By)
	return nil
}

// void takes an acceptance back. The definition waits again, unless a newer one does.
func (c *AcceptTool) void(tx *tx) {
	if c.was == nil {
		return
	}
	now := tx.s.tools.next[toolName{c.Server, c.Tool}]
	is := *now
	is.Accepted, is.Before = c.was.Accepted, c.was.Before
	switch is.Pending.Digest {
	case "":
		is.Pending = c.was.Pending
	case is.Accepted.Digest:
		is.Pending = Definition{}
	}
	tx.putTool(now, &is)
	tx.onSync = append(tx.onSync, func(bool) { tx.s.tools.keep(&is) })
	tx.voided("mcp_tool", func(o *wire.Writer) {
		o.Str("mcp_server", c.Server)
		o.Str("tool_id", toolID(c.Server, c.Tool))
		o.Str("digest", c.Digest)
	})
}

// putTool writes a row, and removes texts that it does not name any more.
func (tx *tx) putTool(was, is *Tool) {
	name := toolName{is.Server, is.Name}
	row, err := json.Marshal(is)
	tx.keep(err)
	tx.set(name.row(prefixTool), row)
	if was == nil {
		tx.s.tools.of[is.Server]++
	} else {
		for _, d := range was.definitions() {
			if !slices.ContainsFunc(is.definitions(), func(o Definition) bool { return o.Digest == d.Digest }) {
				tx.del(name.row(prefixToolText, d.Digest))
			}
		}
	}
	tx.s.tools.next[name] = is
}

func (t *Tool) definitions() []Definition {
	return slices.DeleteFunc([]Definition{t.Accepted, t.Pending, t.Before},
		func(d Definition) bool { return d.Digest == "" })
}

func (tx *tx) toolRecord(t *Tool, state, digest string, by Who) {
	o := tx.record(TypeTool)
	if by.Principal == "" {
		by = system
	}
	by.write(&o)
	o.Str("mcp_server", t.Server)
	o.Str("tool_id", toolID(t.Server, t.Name))
	o.Str("state", state)
	o.Str("digest", digest)
	o.Opt("accepted_digest", t.Accepted.Digest)
	if state == ToolAccepted {
		o.Opt("before_digest", t.Before.Digest)
	}
	tx.end(o)
}

// toolID is the tool's name in rules and records.
func toolID(server, tool string) string { return "mcp." + server + "/" + tool }

// row is the key of a row of the tool; more is the rest of the key of a text.
func (n toolName) row(prefix byte, more ...string) []byte {
	return keyStr(prefix, strings.Join(append([]string{n.server, n.tool}, more...), "\x00"))
}

func textSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (t *toolTable) keep(is *Tool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disk[toolName{is.Server, is.Name}] = is
}

// NoteTool commits c, unless it is what was seen last: then nothing is written.
func (s *Store) NoteTool(ctx context.Context, c SeeTool) (counts bool, err error) {
	if t := s.Tool(c.Server, c.Tool); t != nil {
		switch c.Digest {
		case t.Pending.Digest:
			return false, nil
		case t.Accepted.Digest:
			if t.Pending.Digest == "" {
				return true, nil
			}
		}
	}
	if err := s.Commit(ctx, &c); err != nil {
		return false, err
	}
	return c.Counts, nil
}

// Tool is what is known of a tool's definition, as it is on disk; nil if none was ever seen.
func (s *Store) Tool(server, tool string) *Tool {
	s.tools.mu.RLock()
	defer s.tools.mu.RUnlock()
	return s.tools.disk[toolName{server, tool}]
}

// Tools are all of them, by server and name.
func (s *Store) Tools() []*Tool {
	s.tools.mu.RLock()
	defer s.tools.mu.RUnlock()
	return slices.SortedFunc(maps.Values(s.tools.disk), func(a, b *Tool) int {
		return strings.Compare(a.Server+"\x00"+a.Name, b.Server+"\x00"+b.Name)
	})
}

// ToolText is the text of one of a tool's definitions, "" for none that is kept.
func (s *Store) ToolText(t *Tool, d Definition) (string, error) {
	if d.Digest == "" {
		return "", nil
	}
	text, found, err := s.get(toolName{t.Server, t.Name}.row(prefixToolText, d.Digest))
	if err == nil && found && textSum(string(text)) != d.Text {
		err = errors.New("it was changed by something other than Yett; put the data directory back from where it was saved")
	}
	if err != nil {
		return "", fmt.Errorf("text of the definition of %s: %w", toolID(t.Server, t.Name), err)
	}
	return string(text), nil
}

func (s *Store) loadTools() error {
	t := &s.tools
	t.next, t.of = map[toolName]*Tool{}, map[string]int{}
	err := s.scan(prefixTool, func(key, value []byte) error {
		one := &Tool{}
		var ok bool
		if one.Server, one.Name, ok = strings.Cut(string(key[1:]), "\x00"); !ok {
			return fmt.Errorf("the row of a tool has the key %q", key[1:])
		}
		if err := json.Unmarshal(value, one); err != nil {
			return fmt.Errorf("tool %s: %w", toolID(one.Server, one.Name), err)
		}
		t.next[toolName{one.Server, one.Name}] = one
		t.of[one.Server]++
		return nil
	})
	t.disk = maps.Clone(t.next)
	return err
}
