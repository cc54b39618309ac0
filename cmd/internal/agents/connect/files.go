package connect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/jsontext"
	"github.com/yett-dev/yett/cmd/internal/agents/swap"
	"github.com/yett-dev/yett/cmd/internal/agents/tomltext"
)

// vscodePlaces are VS Code's settings, where a file with hooks is named. It has a file of its own: the folders that VS
// Code reads by itself are read by Copilot and Claude Code too, whose input is another.
var vscodePlaces = map[Scope]string{User: ".config/Code/User/settings.json", Project: ".vscode/settings.json"}

// edits are what is to be done with the files of a site: hooks, and the MCP servers that the hook's own file names.
// With an empty command they only take out.
func (s site) edits(c hook.Command) ([]edit, error) {
	g := s.gates(c)
	g.take = c == (hook.Command{})
	return s.editsWith(c, g)
}

// editsWith are edits with certain MCP servers.
func (s site) editsWith(c hook.Command, g gates) ([]edit, error) {
	hooks, err := s.hookEdits(c)
	if err != nil {
		return nil, err
	}
	return s.withGates(hooks, g), nil
}

// hookEdits are what is to be done for hooks.
func (s site) hookEdits(c hook.Command) ([]edit, error) {
	lines := map[string]string{}
	if c != (hook.Command{}) {
		c.Config = s.hookFile()
		for _, e := range eventsOf[s.agent] {
			line, err := hook.Guard(s.agent, e.phase, c)
			if err != nil {
				return nil, err
			}
			lines[e.name] = line
		}
	}
	mode, _ := s.mode()
	switch s.agent {
	case hook.OpenCode:
		text, err := hook.Guard(hook.OpenCode, hook.Before, hook.Command{Yett: "/yett", Config: "/hook.json"})
		if err == nil && len(c.Yett) > 0 {
			text, err = hook.Guard(hook.OpenCode, hook.Before, c)
		}
		return []edit{{filepath.Join(s.root(), map[Scope]string{User: ".config/opencode/plugins/yett.js",
			Project: ".opencode/plugins/yett.js"}[s.scope]), mode, openCodePlugin(text)}}, err
	case hook.Cline:
		var out []edit
		for _, e := range eventsOf[s.agent] {
			path := filepath.Join(s.root(), ".cline", "hooks", e.name)
			out = append(out, edit{path, mode | 0o100 | mode>>2&0o111, clineScript(lines[e.name], e.name)})
		}
		return out, nil
	case hook.VSCode:
		return s.vscodeEdits(lines)
	case hook.Codex:
		path, toml, err := s.codexFile()
		if err != nil {
			return nil, err
		}
		if toml {
			return []edit{{path, mode, &tomlFile{lines: lines, only: s.scope == Managed, undo: s.undo()}}}, nil
		}
	}
	return []edit{{filepath.Join(s.root(), jsonPlaces[s.agent][s.scope]), mode, s.jsonFile(lines)}}, nil
}

// undo is the command that takes everything out.
func (s site) undo() string { return fmt.Sprintf("yett connect %s --%s --undo", s.agent, s.scope) }

func (s site) jsonFile(lines map[string]string) *jsonFile {
	j := &jsonFile{agent: s.agent, dialect: dialectOf(s.agent), events: eventsOf[s.agent],
		entries: map[string]jsontext.Fields{}, settings: settingsOf(s.agent, s.scope), offs: offsOf(s.agent, s.scope)}
	for _, e := range j.events {
		j.entries[e.name] = entry(s.agent, e.phase, lines[e.name])
	}
	return j
}

// vscodeEdits are the file with hooks, and the setting that names it.
func (s site) vscodeEdits(lines map[string]string) ([]edit, error) {
	hooks := s.jsonFile(lines)
	hooks.dialect = jsontext.Dialect{Reader: string(s.agent)}
	mode, _ := s.mode()
	file, name := filepath.Join(s.own(), "vscode.hooks.json"), "~/.config/yett/hooks/vscode.hooks.json"
	if s.scope == Project {
		file, name = filepath.Join(s.root(), ".vscode", "yett-hooks.json"), ".vscode/yett-hooks.json"
	}
	settings := &jsonFile{agent: s.agent, dialect: dialectOf(hook.VSCode), settings: []setting{{
		path: []string{"chat.hookFilesLocations", name}, value: true,
		other: "Yett's hooks are switched off here: take this member out first"}}}
	return []edit{{file, mode, hooks}, {filepath.Join(s.root(), vscodePlaces[s.scope]), mode, settings}}, nil
}

// codexFile chooses between Codex's files. Codex wants one kind of file in a folder: where config.toml has hooks
// already, ours go there.
func (s site) codexFile() (path string, toml bool, err error) {
	if s.scope == Managed {
		return filepath.Join(s.root(), "codex", "requirements.toml"), true, nil
	}
	path = filepath.Join(s.root(), jsonPlaces[hook.Codex][s.scope])
	config := filepath.Join(filepath.Dir(path), "config.toml")
	hooks, err := swap.Read(path)
	if err != nil {
		return "", false, err
	}
	f, err := swap.Read(config)
	if err != nil || !f.Exists {
		return path, false, err
	}
	d, err := tomltext.Parse(f.Text)
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", config, err)
	}
	if features, _ := d.Values["features"].(map[string]any); features["hooks"] == false {
		return "", false, fmt.Errorf("%s switches hooks off: take hooks = false out of [features] first", config)
	}
	inTOML := strings.Contains(string(f.Text), "# "+string(tomlMark)+": begin")
	if table, _ := d.Values["hooks"].(map[string]any); table != nil && !hooks.Exists {
		for _, v := range table {
			if list, is := v.([]any); is && len(list) > 0 {
				inTOML = true
			}
		}
	}
	if inTOML {
		return config, true, nil
	}
	return path, false, nil
}

// checkManaged refuses managed files that somebody else than root could change or that agents cannot read, and a binary
// like that.
func (s site) checkManaged(edits []edit, c hook.Command, uid int) error {
	var errs []error
	for _, e := range edits {
		errs = append(errs, s.trusted(e.path, uid))
		if real, err := filepath.EvalSymlinks(e.path); err == nil && real != e.path {
			errs = append(errs, s.trusted(real, uid))
		}
		if info, err := os.Stat(e.path); err == nil && info.Mode().Perm()&0o004 == 0 {
			errs = append(errs, fmt.Errorf("%s cannot be read by the users who run %s, so its hooks would not run: chmod o+r %s",
				e.path, s.agent, e.path))
		}
	}
	if info, err := os.Stat(c.Yett); err == nil && info.Mode().Perm()&0o001 == 0 {
		errs = append(errs, fmt.Errorf("%s cannot be run by the users who run %s: chmod o+x %s", c.Yett, s.agent, c.Yett))
	}
	return errors.Join(append(errs, s.trusted(s.own(), uid), s.trusted(c.Yett, uid))...)
}
