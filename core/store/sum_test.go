package store

import (
	"context"
	"encoding/json"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

// edited is a stopped store that somebody edits, as whoever can write its files can.
type edited struct {
	t     *testing.T
	fs    vfs.FS
	db    *pebble.DB
	token string // of a call that waits
	grant string // that was used once
}

func (e *edited) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *edited) row(key []byte) []byte {
	e.t.Helper()
	v, closer, err := e.db.Get(key)
	e.must(err)
	defer closer.Close()
	return append([]byte(nil), v...)
}

// member changes a member of a row in JSON.
func (e *edited) member(key []byte, name string, value any) {
	e.t.Helper()
	var row map[string]any
	e.must(json.Unmarshal(e.row(key), &row))
	if value == nil {
		delete(row, name)
	} else {
		row[name] = value
	}
	b, err := json.Marshal(row)
	e.must(err)
	e.must(e.db.Set(key, b, pebble.Sync))
}

// key changes the row of a key.
func (e *edited) key(id string, change func(k *storedKey)) {
	e.t.Helper()
	k, err := oneRow().key(e.row(keyStr(prefixKey, id)))
	e.must(err)
	change(&k)
	row, err := k.appendRow(nil)
	e.must(err)
	e.must(e.db.Set(keyStr(prefixKey, k.ID), row, pebble.Sync))
}

func TestEditedRowsAreRefused(t *testing.T) {
	for name, edit := range map[string]func(e *edited){
		"nothing":                 nil,
		"a revoke is set back":    func(e *edited) { e.key("gone", func(k *storedKey) { k.RevokedAt = time.Time{} }) },
		"a key is removed":        func(e *edited) { e.must(e.db.Delete(keyStr(prefixKey, "gone"), pebble.Sync)) },
		"a key gets other agents": func(e *edited) { e.key("agent", func(k *storedKey) { k.Agents = []string{"*"} }) },
		"a key is added":          func(e *edited) { e.key("agent", func(k *storedKey) { k.ID, k.Name = "new", "new" }) },
		"a key has another one's row": func(e *edited) {
			e.must(e.db.Set(keyStr(prefixKey, "new"), e.row(keyStr(prefixKey, "agent")), pebble.Sync))
		},
		"a row is in JSON": func(e *edited) {
			k, err := oneRow().key(e.row(keyStr(prefixKey, "agent")))
			e.must(err)
			row, err := json.Marshal(k)
			e.must(err)
			e.must(e.db.Set(keyStr(prefixKey, "agent"), row, pebble.Sync))
		},
		"a kill is dropped": func(e *edited) { e.must(e.db.Delete(killRow("agent", "mallory"), pebble.Sync)) },
		"uses are reset": func(e *edited) {
			e.must(e.db.Set(keyStr(prefixUses, e.grant), make([]byte, 8), pebble.Sync))
		},
		"uses are removed": func(e *edited) { e.must(e.db.Delete(keyStr(prefixUses, e.grant), pebble.Sync)) },
		"a grant is changed": func(e *edited) {
			g, err := oneRow().grant(e.row(keyStr(prefixGrant, e.grant)))
			e.must(err)
			g.MaxUses = 1000
			row, err := g.appendRow(nil)
			e.must(err)
			e.must(e.db.Set(keyStr(prefixGrant, g.ID), row, pebble.Sync))
		},
		"a call is approved":     func(e *edited) { e.member(keyStr(prefixDefer, e.token), "status", Approved) },
		"a call waits no longer": func(e *edited) { e.must(e.db.Delete(keyStr(prefixLive, e.token), pebble.Sync)) },
		"an ended call is live": func(e *edited) {
			e.must(e.db.Set(keyStr(prefixDefer, "dfr_x"), e.row(keyStr(prefixDefer, e.token)), pebble.Sync))
			e.must(e.db.Set(keyStr(prefixLive, "dfr_x"), nil, pebble.Sync))
		},
		"an operator is added": func(e *edited) {
			e.must(e.db.Set(keyStr(prefixOperator, "eve"), []byte(`{"name":"eve"}`), pebble.Sync))
		},
		"a tool is accepted": func(e *edited) {
			e.must(e.db.Set(toolName{"up", "a"}.row(prefixTool), []byte(`{"accepted":{"digest":"`+digest(2)+`"}}`), pebble.Sync))
		},
		"a tool is forgotten": func(e *edited) { e.must(e.db.Delete(toolName{"up", "a"}.row(prefixTool), pebble.Sync)) },
		"the sum is changed": func(e *edited) {
			v := e.row(commitRow)
			v[len(v)-1] ^= 1
			e.must(e.db.Set(commitRow, v, pebble.Sync))
		},
		"the sum is cut off": func(e *edited) { e.must(e.db.Set(commitRow, e.row(commitRow)[:8], pebble.Sync)) },
		"the sum is removed": func(e *edited) { e.must(e.db.Delete(commitRow, pebble.Sync)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := &rig{t: t, fs: vfs.NewMem(), clock: newClock()}
			r.open()
			agent := r.key("agent", []string{"a-*"}, "authorize")
			r.key("gone", nil, "authorize")
			boss := r.key("boss", nil, "approve", "grants", "kill")
			r.must(&RevokeKey{ID: "gone", By: system})
			r.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "mallory", Reason: "why"}, By: by(boss)})
			grant := r.granted("*", 3).ID
			r.must(r.spends(agent, sdk.Verdict{Effect: sdk.Defer, RuleID: "rule"}))
			ask := r.call(agent, "x", sdk.Verdict{Effect: sdk.Defer})
			r.must(ask)
			r.must(sawTool("a", 1))
			r.must(sawTool("a", 2))
			r.must(&Note{Type: "last", By: system})
			r.close()
			e := &edited{t: t, fs: r.fs, token: ask.Out.Token, grant: grant}
			if edit != nil {
				db, err := pebble.Open("data/db", &pebble.Options{FS: keeping{r.fs}, Logger: quiet{},
					WALDir: pebble.MakeStoreRelativePath(r.fs, walDir)})
				if err != nil {
					t.Fatal(err)
				}
				e.db = db
				edit(e)
				e.must(db.Close())
			}
			s, err := Open(settings(r.fs, r.clock, func(err error) { t.Errorf("fatal: %v", err) }))
			switch {
			case edit == nil && err != nil:
				t.Fatal(err)
			case edit == nil:
				e.must(s.Commit(context.Background(), &Note{Type: "on", By: system}))
				e.must(s.Close())
			case err == nil:
				t.Errorf("it starts")
				e.must(s.Close())
			case !strings.Contains(err.Error(), "something other than Yett has changed them") &&
				!strings.Contains(err.Error(), "its commit") && !strings.Contains(err.Error(), "its row is that of key") &&
				!strings.Contains(err.Error(), "that of commit 0"):
				t.Error(err)
			}
		})
	}
}

// keeping removes no write-ahead log, so that the records stay.
type keeping struct{ vfs.FS }

func (k keeping) Remove(name string) error {
	if path.Ext(name) == ".log" {
		return nil
	}
	return k.FS.Remove(name)
}

// TestAnotherPepper: a store is nobody's without its secret.
func TestAnotherPepper(t *testing.T) {
	r := &rig{t: t, fs: vfs.NewMem(), clock: newClock()}
	r.open()
	r.key("agent", nil, "authorize")
	r.close()
	set := settings(r.fs, r.clock, nil)
	set.Secret = []byte("another")
	if _, err := Open(set); err == nil || !strings.Contains(err.Error(), "pepper is not this store's") {
		t.Errorf("got %v", err)
	}
}
