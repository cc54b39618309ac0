package connect

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/tomltext"
)

// tomlFile edits a TOML file with Codex's hooks: our tables stand in a marked block at its end.
type tomlFile struct {
	lines map[string]string // the guard line of each event
	only  bool              // also allow hooks of managed files only
	undo  string            // the command that takes all of it out
}

const tomlMark tomltext.Mark = "yett connect codex"

// onlyKey makes Codex ignore hooks that are not managed.
const onlyKey = "allow_managed_hooks_only"

// block is the text between the marks, without them.
func (t *tomlFile) block() []string {
	out := []string{"# `" + t.undo + "` takes this out again."}
	for _, e := range eventsOf[hook.Codex] {
		out = append(out, fmt.Sprintf("[[hooks.%s]]", e.name), fmt.Sprintf("[[hooks.%s.hooks]]", e.name), `type = "command"`,
			"command = "+tomltext.String(t.lines[e.name]),
			fmt.Sprintf("timeout = %d", hook.TimingOf(hook.Codex, e.phase).Agent/time.Second))
	}
	return out
}

func (t *tomlFile) put(text []byte) (out []byte, notes []string, err error) {
	d, err := tomltext.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	rest, found, err := t.clear(d)
	if err != nil {
		return nil, nil, err
	}
	clean, err := tomltext.Parse(rest)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range eventsOf[hook.Codex] {
		if err := clean.Open("hooks", e.name); err != nil {
			return nil, nil, err
		}
	}
	out = clean.Block(tomlMark, t.block())
	set := t.only
	if v, there := clean.Values[onlyKey]; there && t.only {
		if set = false; v != true {
			notes = append(notes, onlyKey+" is not true: hooks of users and projects run too")
		}
	}
	if set {
		next, err := tomltext.Parse(out)
		if err != nil {
			return nil, nil, err
		}
		out = next.Set(tomlMark, onlyKey+" = true")
	}
	if err := t.unharmed(d, out); err != nil {
		return nil, nil, err
	}
	if t.asWanted(d, found, set) {
		return text, notes, nil // others may have written behind it: it stays where it is
	}
	return out, notes, nil
}

// asWanted says whether a text has our block and our line already.
func (t *tomlFile) asWanted(d *tomltext.Doc, found string, set bool) bool {
	empty, err := tomltext.Parse(nil)
	if err != nil || normal(found) != string(empty.Block(tomlMark, t.block())) {
		return false
	}
	return !set || d.Values[onlyKey] == true
}

func normal(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// clear takes out what is marked, and refuses hooks of ours that are not.
func (t *tomlFile) clear(d *tomltext.Doc) (rest []byte, block string, err error) {
	rest, block, err = d.Clear(tomlMark)
	if err != nil {
		return nil, "", err
	}
	clean, err := tomltext.Parse(rest)
	if err != nil {
		return nil, "", fmt.Errorf("without Yett's block the file would be broken: %w", err)
	}
	if runsOurs(clean.Values["hooks"]) {
		return nil, "", fmt.Errorf("the file has a hook of Yett outside of the block that `yett connect` writes: take its " +
			"[[hooks.…]] tables out by hand")
	}
	return rest, block, t.unharmed(d, rest)
}

// unharmed is an error if a value of others differs between two texts: they wrote into our block, or rely on it.
func (t *tomlFile) unharmed(before *tomltext.Doc, after []byte) error {
	d, err := tomltext.Parse(after)
	if err != nil {
		return fmt.Errorf("with the change the file would be broken: %w", err)
	}
	if !reflect.DeepEqual(withoutOurs(before.Values), withoutOurs(d.Values)) {
		return fmt.Errorf("somebody has written into or directly below the block %q: move that to where it does not "+
			"depend on Yett's tables", string(tomlMark))
	}
	return nil
}

// withoutOurs are the values without hooks of ours, and without what is empty then.
func withoutOurs(values map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range values {
		if name == onlyKey && v == true {
			continue
		}
		hooks, is := v.(map[string]any)
		if name != "hooks" || !is {
			out[name] = v
			continue
		}
		kept := map[string]any{}
		for event, v := range hooks {
			list, is := v.([]any)
			if !is {
				kept[event] = v
				continue
			}
			var others []any
			for _, group := range list {
				if !ourGroup(group) {
					others = append(others, group)
				}
			}
			if len(others) > 0 || len(list) == 0 {
				kept[event] = append([]any{}, others...)
			}
		}
		if len(kept) > 0 || len(hooks) == 0 {
			out[name] = kept
		}
	}
	return out
}

// ourGroup says whether a group holds handlers of ours and nothing that others have added.
func ourGroup(group any) bool {
	g, _ := group.(map[string]any)
	handlers, _ := g["hooks"].([]any)
	for _, h := range handlers {
		handler, _ := h.(map[string]any)
		for name := range handler {
			if name != "type" && name != "command" && name != "timeout" {
				return false
			}
		}
		if line, _ := handler["command"].(string); !ours(hook.Codex, line) {
			return false
		}
	}
	return len(handlers) > 0 && len(g) == 1
}

// runsOurs says whether a line of ours stands anywhere in a value.
func runsOurs(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if runsOurs(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, runsOurs)
	case string:
		return ours(hook.Codex, v)
	}
	return false
}

func (t *tomlFile) take(text []byte, _ [][]string) ([]byte, error) {
	d, err := tomltext.Parse(text)
	if err != nil {
		return nil, err
	}
	rest, _, err := t.clear(d)
	return rest, err
}

func (t *tomlFile) made([]byte) [][]string { return nil }

func (t *tomlFile) blank(text []byte) bool {
	return len(bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))) == 0
}
