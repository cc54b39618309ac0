package shell

import (
	"path"
	"slices"
	"strings"
)

// wrappers are commands behind which another command stands, in words or in a text.
var wrappers = []string{"env", "xargs", "nohup", "timeout", "time", "nice", "ionice", "command", "exec",
	"builtin", "eval", "stdbuf", "setsid", "watch", "script", "parallel", "flock", "strace", "sh", "bash",
	"zsh", "dash", "ksh", "fish", "sudo", "doas", "su", "find", "fd", "ssh", "tmux", "screen", "coproc",
	"noglob", "trap", "source", "busybox", "unshare", "chroot", "nsenter", "docker", "npx", "python", "python3",
	"node", "perl", "ruby", "awk", "tar"}

// keywords are words of the shell that a command follows.
var keywords = []string{"if", "then", "elif", "else", "while", "until", "do", "!"}

// maxPlaces is how many words of a line are looked at as commands.
const maxPlaces = 512

// maxBefore is how many words of git are looked at for its subcommand.
const maxBefore = 8

// mentions gives the classes of what a line names, whatever its form. It looks at each word where a command may stand,
// quotes and substitutions included, and at every word as a path.
func mentions(text string) []Class {
	var out []Class
	note := func(c Class) {
		if c != "" && c != Read && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	note(Unknown)
	text = strings.NewReplacer("\\\n", "", "$'", "", "$\"", "", "'", "", `"`, "", `\`, "").Replace(text)
	places := 0
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(";|&()`{}\n", r) }) {
		words := strings.Fields(part)
		anywhere, next := false, true // whether a command may stand in any word, and in this one
		for i, w := range words {
			for _, piece := range strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune("<>=:,@$", r) }) {
				note(classOfName(piece))
			}
			if !next && !anywhere || places == maxPlaces {
				continue
			}
			places++
			w = strings.TrimLeft(w, "$<>")
			note(classOfCommand(w, words[i+1:]))
			next = strings.Contains(w, "=") || slices.Contains(keywords, w)
			anywhere = anywhere || slices.Contains(wrappers, path.Base(w))
		}
	}
	return out
}

func classOfName(word string) Class {
	if class := byName(word); class != Project {
		return classOfFile(class)
	}
	return ""
}

// classOfCommand is the class that the table gives a command by its first words, options left aside.
func classOfCommand(name string, rest []string) Class {
	if name == "" || name == "." {
		return ""
	}
	name = path.Base(name)
	for i := 0; i == 0 || name == "git" && i < min(len(rest), maxBefore); i++ { // git has options before the subcommand
		entries, n := lookup(slices.Concat([]string{name}, rest[min(i, len(rest)):min(len(rest), i+maxKey-1)]))
		for _, e := range entries {
			if e.mode != "has" || slices.ContainsFunc(rest[min(len(rest), i+n-1):], e.has) {
				return e.class
			}
		}
	}
	return ""
}
