// Package shell reads what coding agents are about to do: command lines, paths, patches. It owns the proof that
// a line is nothing but plain commands, the table of the commands and options that it knows (commands.txt), and the
// classes of commands and files. It is pure: a text goes in, what is known of it comes out, and it looks at no file. It
// must never give a line a class that is not proven: what it does not understand is of class unknown.
package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Class says what a command does, as far as its words tell.
type Class string

// The classes of commands. Destroy, Privilege, Secrets and Config go by the name of a command or a file alone, so they
// are for rules that deny or defer. For the others, each option of the command is known.
const (
	Read      Class = "read"      // reads the project and prints
	Write     Class = "write"     // changes files of the project
	Test      Class = "test"      // builds, tests or formats: runs the project's own code
	Network   Class = "network"   // reads from the network
	Push      Class = "push"      // publishes commits, pull requests, releases
	Install   Class = "install"   // fetches packages and runs what they bring
	Destroy   Class = "destroy"   // deletes, discards, stops
	Privilege Class = "privilege" // acts as another user or changes the machine
	Secrets   Class = "secrets"   // names a file or a command that holds secrets
	Config    Class = "config"    // names Yett, an agent's program or an agent's configuration
	Outside   Class = "outside"   // names a path beyond the project
	Unknown   Class = "unknown"   // not proven to be any of these
)

// isProven reports whether a line of the class has only commands and options that are known.
func (c Class) isProven() bool {
	return slices.Contains([]Class{Read, Write, Test, Network, Push, Install}, c)
}

const (
	MaxLine     = 16 << 10 // bytes; a longer line is not read
	MaxPath     = 4 << 10  // bytes; a longer path is outside
	maxCommands = 64       // in one line
)

// Line is what is known of a command line. The zero Line, with class Unknown, is a line that was not understood.
type Line struct {
	// Simple says that the line is one command, whose words bash, dash and zsh read as Words. There is no substitution, no
	// expansion, no assignment, no glob, no background, no comment, and no redirection but 2>&1 and to /dev/null.
	Simple bool
	// Class is that of all commands of the line. The line is proven to be simple commands that are joined by && || ; | or
	// the end of a line, with redirections to and from files of the project.
	Class Class
	// Words are those of a simple line, decoded.
	Words []string
	// Mentions are the classes of all that the line names, whether it was understood or not. There may be more than the
	// line does, and less: use it to deny or defer.
	Mentions []Class
}

// ReadLine reads a command line that will run in the directory dir, an absolute path in the form of Unix. Without one
// nothing is proven: the directory tells that a shell of Unix will read the line.
func ReadLine(text, dir string) Line {
	line := Line{Class: Unknown}
	if len(text) > MaxLine {
		line.Mentions = []Class{Unknown}
		return line
	}
	isUnix := strings.HasPrefix(dir, "/")
	at := place{dir: cleanDir(dir)}
	if cmds := parse(text); len(cmds) > 0 {
		line.read(cmds, at)
	}
	switch proven := line.Class.isProven(); {
	case !isUnix:
		line.Simple, line.Words = false, nil
		if proven || line.Class == Outside {
			line.Class = Unknown
		}
	case proven && at.dir == nowhere:
		line.Class = Outside // a command without operands works on its directory
	}
	switch line.Class {
	case Read, Write, Test: // nothing else is in it
	case Unknown, Outside:
		line.mention(line.Class)
		fallthrough
	default:
		line.mention(mentions(text)...)
	}
	slices.Sort(line.Mentions)
	return line
}

// read classifies the commands of a plain line.
func (l *Line) read(cmds []command, at place) {
	for i := range cmds {
		var class Class
		if cmds[i].words[0] == "cd" { // /usr/bin/cd leaves the shell where it is
			class = changeDir(cmds, i, &at)
		} else {
			class = cmds[i].classify(at)
		}
		l.mention(class)
		if i == 0 {
			l.Class = class
		} else {
			l.Class = join(l.Class, class)
		}
	}
	if c := cmds[0]; len(cmds) == 1 && len(c.reads)+len(c.writes) == 0 {
		l.Simple, l.Words = true, c.words
	}
}

func (l *Line) mention(classes ...Class) {
	for _, c := range classes {
		if !slices.Contains(l.Mentions, c) {
			l.Mentions = append(l.Mentions, c)
		}
	}
}

// join is the class of two commands together. Reading adds nothing to the other; a test runs code of the project, so it
// may write what a write may. Nothing else goes together.
func join(a, b Class) Class {
	switch {
	case a == b, b == Read && a != Unknown:
		return a
	case a == Read:
		return b
	case a == Write && b == Test, a == Test && b == Write:
		return Test
	}
	return Unknown
}

// command is one simple command.
type command struct {
	words         []string
	reads, writes []string // files of its redirections
	next          syntax.BinCmdOperator
}

// parse gives the commands of a line that is plain, and none otherwise.
func parse(text string) []command {
	if !plain(text) {
		return nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).
		Parse(strings.NewReader(text), "")
	if err != nil || len(file.Last) > 0 {
		return nil
	}
	var p parser
	for _, stmt := range file.Stmts {
		if !p.statement(stmt, 0) {
			return nil
		}
	}
	return p.cmds
}

type parser struct{ cmds []command }

// statement reads one statement: a simple command, or several that are joined.
func (p *parser) statement(s *syntax.Stmt, next syntax.BinCmdOperator) bool {
	if s.Negated || s.Background || s.Coprocess || s.Disown || len(s.Comments) > 0 || len(p.cmds) == maxCommands {
		return false
	}
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		if len(s.Redirs) > 0 || c.Op != syntax.AndStmt && c.Op != syntax.OrStmt && c.Op != syntax.Pipe {
			return false
		}
		return p.statement(c.X, c.Op) && p.statement(c.Y, next)
	case *syntax.CallExpr:
		cmd := command{next: next}
		if len(c.Assigns) > 0 || len(c.Args) == 0 {
			return false
		}
		for _, w := range c.Args {
			text, ok := decode(w)
			if !ok {
				return false
			}
			cmd.words = append(cmd.words, text)
		}
		for _, r := range s.Redirs {
			if !cmd.redirect(r) {
				return false
			}
		}
		p.cmds = append(p.cmds, cmd)
		return true
	}
	return false
}

// redirect reads a redirection. 2>&1 and the like change nothing that matters, nor does /dev/null.
func (c *command) redirect(r *syntax.Redirect) bool {
	if r.Hdoc != nil || r.Word == nil || r.N != nil && r.N.Value != "0" && r.N.Value != "1" && r.N.Value != "2" {
		return false
	}
	to, ok := decode(r.Word)
	switch {
	case !ok:
		return false
	case r.Op == syntax.DplOut:
		return to == "1" || to == "2"
	case to == "/dev/null" && (r.Op == syntax.RdrOut || r.Op == syntax.AppOut || r.Op == syntax.RdrIn):
		return true
	case r.Op == syntax.RdrOut || r.Op == syntax.AppOut:
		c.writes = append(c.writes, to)
		return true
	case r.Op == syntax.RdrIn:
		c.reads = append(c.reads, to)
		return true
	}
	return false
}

// changeDir reads the i-th command, a cd. What follows it must not run if it fails, so it is joined by && alone, and
// no part of a pipe, which shells run elsewhere or not.
func changeDir(cmds []command, i int, at *place) Class {
	c := &cmds[i]
	for k := range cmds[:len(cmds)-1] {
		next := cmds[k].next
		if next != syntax.AndStmt && (next != syntax.Pipe || k == i || k+1 == i) {
			return Unknown
		}
	}
	if len(c.words) != 2 || len(c.reads)+len(c.writes) > 0 {
		return Unknown
	}
	if strings.IndexAny(c.words[1], "-+") == 0 { // an option, or in zsh a place in the stack of directories
		return Unknown
	}
	rel, class := at.resolve(c.words[1])
	if class == Project {
		at.rel = rel
		if rel != "." {
			return Test // the agent may stay there, and a repository may lie there: see belowRoot
		}
		return Read
	}
	return classOfFile(class)
}
