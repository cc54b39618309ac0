package shell

import (
	"path"
	"slices"
	"strings"
)

// prefixes are commands and keywords that a command follows, behind options, numbers and assignments.
var prefixes = []string{"env", "xargs", "nohup", "timeout", "time", "nice", "ionice", "command", "exec", "builtin",
	"eval", "stdbuf", "setsid", "flock", "strace", "sh", "bash", "zsh", "dash", "ksh", "fish", "sudo", "doas", "coproc",
	"noglob", "trap", "source", "busybox", "unshare", "chroot", "nsenter", "npx", "uvx", "if", "then", "elif", "else",
	"while", "until", "do", "!", "-exec", "-execdir", "-ok", "-okdir", "-x", "-X"}

// carriers are commands that take a command anywhere in their words.
var carriers = []string{"ssh", "su", "script", "parallel", "tmux", "screen", "watch"}

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
	text = strings.NewReplacer("\\\n", "", "$'", "", "$\"", "", "'", "", `"`, "", `\`, "").Replace(text)
	places := 0
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(";|&()[]`{}\n", r) }) {
		words := strings.Fields(part)
		anywhere, next := false, true // whether a command may stand in any word, and in this one
		for i, w := range words {
			for _, piece := range strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune("<>=:,@$", r) }) {
				note(classOfName(piece))
			}
			prefix := slices.Contains(prefixes, w) || slices.Contains(prefixes, path.Base(w))
			if next || anywhere {
				if places == maxPlaces {
					continue
				}
				places++
				if i+1 == len(words) || !strings.HasPrefix(words[i+1], "=") { // else something is called so, in Python for one
					note(classOfCommand(strings.Trim(w, "$<>,"), words[i+1:]))
				}
				next = next && (strings.HasPrefix(w, "-") || strings.Contains(w, "=") || strings.Trim(w, "0123456789.smh") == "")
				anywhere = anywhere || slices.Contains(carriers, path.Base(w))
			}
			next = next || prefix
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
			operands := len(rest) - (i + n - 1)
			if e.mode == "none" && operands > 0 { // env A=1 ls
				continue
			}
			if e.mode != "has" || slices.ContainsFunc(rest[min(len(rest), i+n-1):], e.has) {
				return e.class
			}
		}
	}
	return ""
}
