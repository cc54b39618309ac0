package connect

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
)

// edit is what is to be done with one file.
type edit struct {
	path string
	mode fs.FileMode // of a new file
	editor
}

// editor changes the text of one kind of file. It knows no paths and reads nothing.
type editor interface {
	// put gives the text with Yett's entries as they must be. Where they are, it gives the text as it is. The notes are
	// for the user.
	put(text []byte) (out []byte, notes []string, err error)
	// take gives the text without Yett's entries, and without what was made to hold them if nothing else is in it.
	take(text []byte, made [][]string) ([]byte, error)
	// made names what put would make in this text to hold the entries, for take.
	made(text []byte) [][]string
	// blank says whether a text holds nothing at all.
	blank(text []byte) bool
}

// whole is a file that is all ours.
type whole struct {
	text string
	ours func(text string) bool
	// advice says what to do about a file of somebody else's under this name.
	advice string
}

func (w whole) put(text []byte) ([]byte, []string, error) {
	if len(text) > 0 && !w.ours(string(text)) {
		return nil, nil, fmt.Errorf("somebody else wrote this file. %s", w.advice)
	}
	return []byte(w.text), nil, nil
}

func (w whole) take(text []byte, _ [][]string) ([]byte, error) {
	if len(text) > 0 && !w.ours(string(text)) {
		return text, nil
	}
	return nil, nil
}

func (w whole) made([]byte) [][]string { return nil }
func (w whole) blank(text []byte) bool { return len(text) == 0 }

// clineScript is Cline's script for one event.
func clineScript(text, event string) whole {
	return whole{text: text, ours: func(s string) bool {
		return strings.HasPrefix(s, "#!/bin/sh\n") && strings.Count(s, "\n") <= 3 && ours(hook.Cline, s)
	}, advice: "Cline runs the scripts of several folders: move this one to ~/Documents/Cline/Hooks/" + event +
		", and connect again"}
}

// openCodePlugin is OpenCode's plugin.
func openCodePlugin(text string) whole {
	return whole{text: text, ours: func(s string) bool {
		first, _, _ := strings.Cut(s, "\n")
		return strings.HasPrefix(first, "//") && strings.Contains(first, "`yett connect opencode`")
	},
		advice: "OpenCode loads every .js file of this folder: give this one another name, and connect again"}
}
