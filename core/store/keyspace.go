// Package store keeps keys, defers, repeats and the audit log in Pebble behind one write door: Commit hands a command
// to the sequencer, which gives records their seq, applies changes and records in one batch, syncs once, and then lets
// the answers go. State and its record cannot differ, because they are one write. It must never answer before the disk
// has answered, never retry a failed write, and never read a clock or make randomness of its own: both come with
// commands. Commands come from core/ops; nothing else may import Pebble.
package store

import (
	"encoding/binary"
)

// Every key of the database starts with one of these bytes. A new kind of row adds its prefix here, with its layout. It
// is not a or h: layout 1 had rows with these, and an upgrade removes them.
const (
	prefixKey     = 'k' // k|key id                  → API key, see key_row.go; tombstones stay
	prefixDefer   = 'd' // d|defer token             → deferred call, JSON; resolved ones stay: see tidier
	prefixView    = 'v' // v|defer token             → the canonical call as approvers see it, secrets masked, JSON
	prefixNote    = 'n' // n|defer token             → what the agent says of the call, secrets masked, JSON: see AgentNote
	prefixLive    = 'l' // l|defer token             → "": the defer is pending or approved
	prefixJoin    = 'j' // j|defer token|0|action id → "": the action waits for the defer that another one began
	prefixAsked   = 'q' // q|decision id             → token of the deferred call that the decision began
	prefixRepeat  = 'p' // p|u32 window|16-byte hash → what a call_id was answered (see repeats.go)
	prefixIdem    = 'i' // i|u32 window|16-byte hash → what an Idempotency-Key was answered
	prefixCounter = 'c' // c|u64 window end|16-byte hash → decimal text: what limits have counted (see counters.go)
	prefixGrant   = 'g' // g|grant id                → standing grant, see grant_row.go; ended ones stay: see tidier
	prefixUses    = 'u' // u|grant id                → u64 uses of the grant
	prefixKill    = 'x' // x|scope|0|target          → kill in effect, JSON
	prefixSweep   = 'y' // y|u64 number              → what a kill or revocation has left to be denied, JSON (see sweep.go)
	prefixAction  = 't' // t|r|action id → action, JSON; t|x|action id → its texts; t|a|agent id|0|action id → ""
	// m|name → "store": the store's id; "format": the layout's version; "clock": see clock.go; "commit": u64 number of the
	// newest commit; "kept": u64 first record that retention has left; "lives": see lives.go
	prefixMeta = 'm'

	prefixOperator = 'o' // o|name                  → console operator, JSON
	prefixSession  = 's' // s|SHA-256 of its id     → console session, JSON; gone when it ends
	prefixCursor   = 'f' // f|subscriber's name     → u64 cursor, u64 the furthest it ever was (see cursors.go)
	prefixTool     = 'w' // w|MCP server|0|tool     → what is known of its definition, JSON: see Tool
	prefixToolText = 'z' // z|MCP server|0|tool|0|digest → text of a definition that the row of the tool names
)

func keyU64(prefix byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefix}, n)
}

func keyStr(prefix byte, s string) []byte {
	return append([]byte{prefix}, s...)
}

func keyWindow(prefix byte, window uint32, hash [16]byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{prefix}, window), hash[:]...)
}

// upper is the first key behind all keys with the prefix.
func upper(prefix byte) []byte { return []byte{prefix + 1} }
