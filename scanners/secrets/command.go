package main

import "github.com/yett-dev/yett/sdk/scanner"

// commandRule is a program that takes a password as the argument of an option.
type commandRule struct {
	name    string   // with the blank behind it
	options []string // what the password stands behind; one with a blank at its end needs that
}

var commandRules = []commandRule{
	{"sshpass ", []string{"-p", "-p "}},
	{"mysql ", []string{"-p"}},
	{"mysqldump ", []string{"-p"}},
	{"mysqladmin ", []string{"-p"}},
	{"redis-cli ", []string{"-a "}},
	{"docker login ", []string{"-p ", "--password "}},
	{"podman login ", []string{"-p ", "--password "}},
	{"az login ", []string{"-p "}},
	{"net use ", []string{"/user:"}},
}

func commands() (list []scanner.Trigger) {
	for _, r := range commandRules {
		list = append(list, literal(r.name))
	}
	return list
}

// mostCommand bounds how far an option may stand behind its program; bytes.
const mostCommand = 200

// command takes the password behind the option of a program, in the same line.
func (s *scan) command(h scanner.Hit) {
	if h.Start > 0 && (isWord(s.t[h.Start-1]) || s.t[h.Start-1] == '-') {
		return
	}
	for _, r := range commandRules {
		if r.name != string(s.t[h.Start:h.End]) {
			continue
		}
		t := s.t[:min(len(s.t), h.End+mostCommand)]
		for i := h.End; i < len(t) && t[i] != '\n'; i++ {
			if !isSpace(t[i-1]) {
				continue
			}
			for _, option := range r.options {
				if len(t)-i > len(option) && string(t[i:i+len(option)]) == option {
					s.argument(i + len(option))
				}
			}
		}
	}
}

// netrc takes the password of a line for ftp and curl: machine host login name password ….
func (s *scan) netrc(h scanner.Hit) {
	const word = "password "
	end := h.Start + len(word)
	if end >= len(s.t) || string(s.t[h.Start:end]) != word {
		return
	}
	i := h.Start
	for n := 0; n < 2; n++ { // back over the name
		for i > 0 && (s.t[i-1] == ' ' || s.t[i-1] == '\n') == (n == 0) && h.Start-i < 80 {
			i--
		}
	}
	if i >= len("login ") && string(s.t[i-len("login "):i-1]) == "login" {
		s.argument(end)
	}
}

// argument takes a password that is one argument of a command.
func (s *scan) argument(i int) {
	t := s.t[:min(len(s.t), i+80)]
	quote := byte(0)
	if i < len(t) && (t[i] == '"' || t[i] == '\'') {
		quote = t[i]
		i++
	}
	end := i
	for end < len(t) && t[end] != quote && !(quote == 0 && (isSpace(t[end]) || indexByte("\"'`;|)<>", t[end]) >= 0)) {
		end++
	}
	v := s.t[i:end]
	if len(v) >= 5 && end-i <= 64 && passwordLike(v) && !filler(v) && passwordValue(v, true, true) {
		s.add("PASSWORD", i, end, rankHeader, 0.7)
	}
}

var sessionNames = newWordSet("sess", "sid", "auth", "token", "jwt", "remember", "login", "ticket")

// cookie takes the values of a cookie header that keep somebody logged in.
func (s *scan) cookie(h scanner.Hit) {
	t := s.t[:min(len(s.t), h.End+2048)]
	for i := max(h.End, s.done.cookie); i < len(t) && t[i] != '\n'; i++ {
		s.done.cookie = i
		if t[i] != '=' {
			continue
		}
		name := i
		for name > h.End && nameByte(t[name-1]) {
			name--
		}
		if sessionNames.in(t[name:i]) && !isPublicName(t[name:i]) {
			s.headerValue("SESSION_COOKIE", i+1, 0.7)
		}
		for i+1 < len(t) && t[i+1] != ';' && t[i+1] != '\n' {
			i++
		}
	}
}
