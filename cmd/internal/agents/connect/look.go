package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
)

// Installed is what stands of an agent's hooks in one scope.
type Installed struct {
	Scope    Scope
	HookFile string
	Files    []FileResult // Change says what connect would still do: unchanged where the hooks stand as they must
	Open     []Way        // ways past the hooks
	Notes    []string     // what weakens these hooks in the files as they stand
	Err      error        // why a file of the agent cannot be read, or what runs cannot be trusted
}

// Look finds where an agent is connected, and changes nothing. Places without a hook's own file are left out. The
// command is what the hooks must run, and uid the user who asks.
func Look(agent hook.Agent, places Places, uid int, c hook.Command) ([]Installed, error) {
	var out []Installed
	for _, scope := range []Scope{Managed, Project, User} {
		s := site{agent, scope, places}
		if scope == Project && places.Project == "" || scope == Managed && noManaged(agent) != "" {
			continue
		}
		if err := places.check(scope); err != nil {
			return nil, err
		}
		if _, err := os.Lstat(s.hookFile()); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found := Installed{Scope: scope, HookFile: s.hookFile(), Open: ways(s)}
		found.Err = errors.Join(s.trusted(c.Yett, uid), s.trusted(s.hookFile(), uid), s.look(c, &found))
		out = append(out, found)
	}
	return out, nil
}

// Trusted says why a program of the hooks cannot be trusted by the user who asks.
func Trusted(agent hook.Agent, places Places, program string, uid int) error {
	if !runnable(program) {
		return fmt.Errorf("%s is no program", program)
	}
	return site{agent, User, places}.trusted(program, uid)
}

func (s site) look(c hook.Command, found *Installed) error {
	edits, err := s.edits(c)
	if err != nil {
		return err
	}
	for i, e := range edits {
		p, err := s.planFile(e, i, nil)
		if err != nil {
			return err
		}
		found.Notes = append(found.Notes, p.notes...)
		change := "changed"
		switch {
		case p.same():
			change = "unchanged"
		case !p.file.Exists:
			change = "created"
		}
		found.Files = append(found.Files, FileResult{Path: e.path, Change: change})
	}
	return nil
}

// This is the machine, the user and the program that a command of theirs is about.
func This(project bool) (places Places, uid int, c hook.Command, err error) {
	r := &Request{UID: os.Geteuid(), Scope: User}
	if places, err = placesOf(r); err != nil {
		return places, r.UID, c, err
	}
	if project {
		if places.Project, err = os.Getwd(); err != nil || places.Project == places.Home {
			places.Project = ""
		}
	}
	c, cmdErr := command()
	return places, r.UID, c, errors.Join(err, cmdErr)
}
