// Package connect is `yett connect AGENT`: it puts Yett's hooks into a coding agent's own configuration, and takes them
// out again. It owns where each agent looks for hooks, what is written there, the record that makes an undo exact, and
// the hook's own file with the key. It must never change or lose what others wrote, never write a guard line that
// package hook did not make, never print a key, and never claim more than a place can hold: it says what stays open.
// It knows no gateway: who makes keys is handed in, and so is every directory.
package connect

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/swap"
)

// Scope says whose configuration is changed.
type Scope string

// The scopes.
const (
	User    Scope = "user"    // of one user, in the home directory
	Project Scope = "project" // of one user in one project
	Managed Scope = "managed" // of all users of the machine; only root can change it
)

// Places are the directories below which everything is read and written. Home and Etc are always needed, Project for
// the scope of that name.
type Places struct{ Home, Etc, Project string }

// forbidden are directories that nothing may be written below. Tests name the real ones here.
var forbidden []string

// check refuses places that are missing or not clean.
func (p Places) check(scope Scope) error {
	for _, row := range []struct {
		name, dir string
		needed    bool
	}{{"home directory", p.Home, scope != Managed}, {"directory for machine-wide settings", p.Etc, scope == Managed},
		{"project directory", p.Project, scope == Project}} {
		if !row.needed {
			continue
		}
		if !filepath.IsAbs(row.dir) || filepath.Clean(row.dir) != row.dir {
			return fmt.Errorf("the %s: expected a clean absolute path, got %q", row.name, row.dir)
		}
		for _, f := range forbidden {
			if row.dir == f || strings.HasPrefix(row.dir, f+"/") {
				return fmt.Errorf("the %s %s must not be touched here", row.name, row.dir)
			}
		}
		if info, err := os.Stat(row.dir); err != nil || !info.IsDir() {
			return fmt.Errorf("the %s %s is not a directory", row.name, row.dir)
		}
	}
	return nil
}

// site is one agent in one scope.
type site struct {
	agent  hook.Agent
	scope  Scope
	places Places
}

// own is the directory of the hook's own file and of the record.
func (s site) own() string {
	if s.scope == Managed {
		return filepath.Join(s.places.Etc, "yett", "hooks")
	}
	return filepath.Join(s.places.Home, ".config", "yett", "hooks")
}

// stem begins the names of this site's files there. Each project has its own.
func (s site) stem() string {
	if s.scope != Project {
		return string(s.agent)
	}
	sum := sha256.Sum256([]byte(s.places.Project))
	return string(s.agent) + "@" + hex.EncodeToString(sum[:6])
}

func (s site) hookFile() string   { return filepath.Join(s.own(), s.stem()+".json") }
func (s site) recordFile() string { return filepath.Join(s.own(), s.stem()+".connect.json") }

func (s site) backup(i int) string {
	return filepath.Join(s.own(), fmt.Sprintf("%s.backup-%d", s.stem(), i))
}

// root is the directory that the agent's files lie below.
func (s site) root() string {
	switch s.scope {
	case Managed:
		return s.places.Etc
	case Project:
		return s.places.Project
	}
	return s.places.Home
}

// mode is the permissions of new files and directories of the agent.
func (s site) mode() (file, dir fs.FileMode) {
	if s.scope == User {
		return 0o600, 0o700
	}
	return 0o644, 0o755
}

// jsonPlaces are the JSON files with hooks, below the root of each scope.
var jsonPlaces = map[hook.Agent]map[Scope]string{
	// not settings.json of the project, which people share: the hook's file is one user's
	hook.ClaudeCode: {User: ".claude/settings.json", Project: ".claude/settings.local.json",
		Managed: "claude-code/managed-settings.json"},
	hook.Codex:  {User: ".codex/hooks.json", Project: ".codex/hooks.json"},
	hook.Gemini: {User: ".gemini/settings.json", Project: ".gemini/settings.json", Managed: "gemini-cli/settings.json"},
	hook.Copilot: {User: ".copilot/hooks/yett.json", Project: ".github/hooks/yett.json",
		Managed: "github-copilot/policy.d/yett.json"},
	hook.Cursor: {User: ".cursor/hooks.json", Project: ".cursor/hooks.json", Managed: "cursor/hooks.json"},
	hook.Windsurf: {User: ".codeium/windsurf/hooks.json", Project: ".windsurf/hooks.json",
		Managed: "windsurf/hooks.json"},
}

// noManaged says why an agent has no managed place, "" if it has one.
func noManaged(agent hook.Agent) string {
	switch agent {
	case hook.VSCode, hook.OpenCode, hook.Cline:
		return fmt.Sprintf("%s has no place for hooks that its user cannot change: use --user, and give the agent a user of "+
			"its own", agent)
	}
	return ""
}

// trusted says why a path must not be relied on, nil if only root and this user can change what is there. Missing ends
// of the path are passed over. For a user's own files groups do not count: many systems give each user a group.
func (s site) trusted(path string, uid int) error {
	others := fs.FileMode(0o002)
	if s.scope == Managed {
		others = 0o022
	}
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil {
			owner, _, ok := swap.Owner(info)
			switch {
			case !ok || owner != 0 && owner != uid:
				return fmt.Errorf("%s belongs to user %d, who could change what runs: give it to user %d", at, owner, uid)
			case info.Mode().Perm()&others != 0 && info.Mode()&fs.ModeSticky == 0:
				return fmt.Errorf("%s can be written by others, who could change what runs: chmod go-w %s", at, at)
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
