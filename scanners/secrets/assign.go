package main

// assignment is a name with the value that some language, file format or command line gives it.
type assignment struct {
	nameStart, nameEnd int
	start, end         int // the value, without quotes
	quoted             bool
	scheme             bool // the value followed an authentication scheme such as Bearer
	loose              bool // the value has brackets and no quotes: it is code, unless they do not match
}

// Bounds of what is looked at around a keyword; bytes.
const (
	maxName  = 80
	maxValue = 4096
)

// maxLoose bounds a value with brackets and without quotes; bytes.
const maxLoose = 64

func nameByte(c byte) bool { return isWord(c) || c == '_' || c == '-' || c == '.' }

// bareRun remembers the last run of bytes that may make up an unquoted value, for texts such as a=b=c=d, where each
// part begins in the run of the one before. The zero bareRun remembers nothing.
type bareRun struct{ start, end int }

// assigned reads the assignment whose name holds t[start:end]. The run belongs to t.
func assigned(t []byte, start, end int, run *bareRun) (a assignment, ok bool) {
	l, r := start, end
	for l > 0 && nameByte(t[l-1]) && start-l < maxName && !(l >= 2 && t[l-2] == '\\' && isAlpha(t[l-1])) {
		l--
	}
	for r < len(t) && nameByte(t[r]) && r-end < maxName {
		r++
	}
	a.nameStart, a.nameEnd = l, r
	i, op := operator(t, l, r)
	if op == 0 {
		a.start, a.end = compared(t, l)
		a.quoted = true
		return a, a.end > a.start
	}
	i = skipFill(t, i, op)
	i = skipCall(t, i)
	return value(t, i, op, a, run)
}

// operator finds the assignment behind a name and gives the first byte after it; op tells which one: '=' ':' ',' '('
// '>' or ' ' for a command line. 0: there is none.
func operator(t []byte, l, r int) (i int, op byte) {
	i = r
	closed := false
	for n := 0; i < len(t) && n < 6; n++ {
		c := t[i]
		if c == '"' || c == '\'' || c == '`' {
			if i > r && !closed && (t[l] == '-' || statement(t, i)) {
				return i, ' '
			}
			closed = true
		} else if c == '[' && i+1 < len(t) && isDigit(t[i+1]) {
			for i < len(t) && t[i] != ']' && i-r < 8 {
				i++
			}
			continue
		} else if c != ' ' && c != '\t' && c != ']' && c != '\\' {
			break
		}
		i++
	}
	if i == len(t) {
		return i, 0
	}
	if j, found := pairValue(t, i); found && (closed || t[i] == '\n' || t[i] == '\r') {
		return j, '='
	}
	if isAlpha(t[i]) && i > r {
		if j := typeWord(t, i); j > 0 {
			return j, '='
		}
		if t[l] == '-' && !closed {
			return i, ' '
		}
		return i, 0
	}
	return sign(t, l, i, closed, t[l] == '-' && i > r)
}

// firstOfList tells whether the string that holds the name at t[l] is the first argument of a call, or of a pair:
// behind others it is one of many words.
func firstOfList(t []byte, l int) bool {
	for n := 0; l > 0 && n < 40 && (indexByte("\"'`\\", t[l-1]) >= 0 || isSpace(t[l-1])); n++ {
		l--
	}
	return l == 0 || t[l-1] != ',' && t[l-1] != '|'
}

// statement tells whether the string that opens at t[i] ends a line of configuration: secret_key "…";
func statement(t []byte, i int) bool {
	j := closing(t, i, false)
	return j > 0 && j+1 < len(t) && t[j+1] == ';'
}

// maxCompared bounds the string that stands before a name; bytes.
const maxCompared = 150

// npmLine tells whether a name at t[l] may be a setting of npm as far as what stands before it: behind the address of a
// registry, /:name, that address begins with two slashes, or npm does not read the line.
func npmLine(t []byte, l int) bool {
	if l < 2 || string(t[l-2:l]) != "/:" {
		return true
	}
	i := l - 2
	for l-i < maxName && i > 0 && (nameByte(t[i-1]) || t[i-1] == '/' || t[i-1] == ':') {
		i--
	}
	return l-i >= maxName || i+1 < l && string(t[i:i+2]) == "//" || contains(t[i:l], "://")
}

// compared finds the string to which the name that begins at t[l] is compared: "…" == name.
func compared(t []byte, l int) (start, end int) {
	for l > 0 && (t[l-1] == ' ' || t[l-1] == '(') {
		l--
	}
	signs := 0
	for l > 0 && signs < 3 && (t[l-1] == '=' || t[l-1] == '!') {
		l--
		signs++
	}
	for l > 0 && signs >= 2 && t[l-1] == ' ' {
		l--
	}
	if signs < 2 || l < 3 || t[l-1] != '"' && t[l-1] != '\'' && t[l-1] != '`' {
		return 0, 0
	}
	for i := l - 2; i >= 0 && l-i < maxCompared && t[i] != '\n'; i-- {
		if t[i] == t[l-1] {
			return i + 1, l - 1
		}
	}
	return 0, 0
}

// sign reads the operator itself.
func sign(t []byte, l, i int, closed, flag bool) (int, byte) {
	next := byte(0)
	if i+1 < len(t) {
		next = t[i+1]
	}
	switch c := t[i]; c {
	case '=':
		start := i
		for n := 0; n < 3 && i < len(t) && (t[i] == '=' || t[i] == '>' || t[i] == '~'); n++ {
			i++
		}
		if i == start+2 && next == '=' && nameByte(t[start-1]) && i < len(t) && isWord(t[i]) {
			i-- // KEY==abc: the value begins with an equals sign
		}
		return i, '='
	case ':':
		for n := 0; n < 4 && i < len(t) && (t[i] == ':' || t[i] == '='); n++ {
			i++
		}
		if j := typeWord(t, skipBlank(t, i)); j > 0 && t[i-1] != '=' {
			return j, '='
		}
		return i, ':'
	case '?', '+', '.', '!', '|':
		if next != '=' && next != '|' {
			return i, 0
		}
		for i++; i < len(t) && (t[i] == '=' || t[i] == '|'); i++ {
		}
		return i, '='
	case '-':
		if next == '>' {
			return i + 2, '='
		}
	case ',':
		if closed && firstOfList(t, l) {
			return i + 1, ','
		}
	case '(', '>':
		return i + 1, c
	}
	if flag && !closed {
		return i, ' '
	}
	return i, 0
}

// typeWord skips a declared type and its equals sign, as in `token string = ` or `password: str = `.
func typeWord(t []byte, i int) int {
	start := i
	for i < len(t) && i-start < 16 && (isWord(t[i]) || t[i] == '*' || t[i] == '&') {
		i++
	}
	if i == start {
		return 0
	}
	i = skipBlank(t, i)
	if i+1 < len(t) && t[i] == '=' && t[i+1] != '=' {
		return i + 1
	}
	return 0
}

// pairValue finds the value of a name that is itself a value: `name: X` + `value: Y`, key="X" value="Y".
func pairValue(t []byte, i int) (int, bool) {
	start := i
	for i < len(t) && i-start < 40 && (isSpace(t[i]) || t[i] == ',' || t[i] == '"' || t[i] == '\'') {
		i++
	}
	if i == start || len(t)-i < 7 || !foldEqual(t[i:i+5], "value") {
		return 0, false
	}
	for i += 5; i < len(t) && (t[i] == ' ' || t[i] == '"' || t[i] == '\''); i++ {
	}
	if i < len(t) && (t[i] == ':' || t[i] == '=') {
		return i + 1, true
	}
	return 0, false
}

func foldEqual(v []byte, low string) bool {
	if len(v) != len(low) {
		return false
	}
	for i := range v {
		if lower(v[i]) != low[i] {
			return false
		}
	}
	return true
}

func skipBlank(t []byte, i int) int {
	for i < len(t) && (t[i] == ' ' || t[i] == '\t') {
		i++
	}
	return i
}

// skipFill goes to the value; only an element of a mark-up language may have it on the next line.
func skipFill(t []byte, i int, op byte) int {
	for n := 0; i < len(t) && n < 40; n++ {
		if t[i] != ' ' && t[i] != '\t' && !(op == '>' && isSpace(t[i])) {
			break
		}
		i++
	}
	return i
}

// skipCall skips one conversion around a literal: []byte("…"), new String("…").
func skipCall(t []byte, i int) int {
	j := i
	for j < len(t) && j-i < 24 && (nameByte(t[j]) || t[j] == '[' || t[j] == ']' || t[j] == ' ') {
		j++
	}
	if j > i && j+1 < len(t) && t[j] == '(' && (t[j+1] == '"' || t[j+1] == '\'') && !reads(t[i:j]) {
		return j + 1
	}
	return i
}

// reads tells whether a call looks something up or changes it, so that its argument is not the value.
func reads(call []byte) bool {
	return lastWordIn(call, []string{"encode", "get", "getenv", "env", "replace", "split", "join", "find", "strip",
		"lookup", "parameter", "property", "header", "read", "open", "load", "param", "require", "matches", "compile"})
}

// value reads a quoted or bare value at i.
func value(t []byte, i int, op byte, a assignment, run *bareRun) (assignment, bool) {
	j := i
	if j+1 < len(t) && (isAlpha(t[j]) || t[j] == '@') && (t[j+1] == '"' || t[j+1] == '\'') {
		j++ // b"…", r'…', @"…"
	}
	escaped := false
	for j < len(t) && t[j] == '\\' && j-i < 4 {
		j++
		escaped = true
	}
	if j < len(t) && (t[j] == '"' || t[j] == '\'' || t[j] == '`') {
		a.quoted = true
		a.start = j + 1
		a.end = closing(t, j, escaped)
	} else if escaped || op == ',' || op == '(' {
		return a, false
	} else {
		a.start = i
		if a.end = bare(t, i, run); a.end == 0 && plainSign(t, i) {
			a.loose = true
			for a.end = i; a.end < len(t) && a.end-i <= maxLoose && !isSpace(t[a.end]); a.end++ {
			}
			return a, a.end > i && a.end-i <= maxLoose
		}
	}
	if n := schemeLen(t[a.start:max(a.start, min(a.end+1, len(t)))]); n > 0 {
		a.scheme = true
		a.start += n
		if !a.quoted {
			a.start = skipBlank(t, a.start)
			a.end = bare(t, a.start, run)
		}
	}
	if v := t[a.start:max(a.start, a.end)]; len(v) > 7 && string(v[:7]) == "base64:" {
		a.start += 7
	}
	return a, a.end > a.start
}

// plainSign tells whether what stands before t[i] assigns in a file of settings: a colon, or an equals sign without a
// blank. Programs have other signs too, and blanks.
func plainSign(t []byte, i int) bool {
	if i >= 2 && t[i-1] == '=' {
		return indexByte("=:!<>+?.|~ ", t[i-2]) < 0
	}
	for i > 0 && (t[i-1] == ' ' || t[i-1] == '\t') {
		i--
	}
	return i >= 2 && t[i-1] == ':' && t[i-2] != ':'
}

// closing gives the offset of the quote that ends the literal opened at i, or 0.
func closing(t []byte, i int, escaped bool) int {
	for j := i + 1; j < len(t) && j-i <= maxValue; j++ {
		switch {
		case t[j] == '\n':
			return 0
		case t[j] == t[i]:
			if escaped {
				for t[j-1] == '\\' && j-1 > i {
					j--
				}
			}
			return j
		case t[j] == '\\' && !escaped:
			j++
		}
	}
	return 0
}

var bareStop = func() (s byteSet) {
	for _, c := range " \t\r\n\"'`,;<>(){}[]|\\&" {
		s[c] = true
	}
	return s
}()

// bare gives the end of an unquoted value, or 0 when it is the start of an expression.
func bare(t []byte, i int, run *bareRun) int {
	if i < run.start || i >= run.end {
		*run = bareRun{i, i}
	}
	j := run.end
	for j < len(t) && !bareStop[t[j]] && j-i < maxValue {
		j++
	}
	run.end = j
	if j < len(t) && (t[j] == '(' || t[j] == '[' || t[j] == '{') {
		return 0
	}
	if j-i > 3 && string(t[j-3:j]) == "..." {
		return 0 // cut short by whoever wrote it
	}
	for j > i && (t[j-1] == '.' || t[j-1] == ':') {
		j--
	}
	return j
}

func schemeLen(v []byte) int {
	for _, s := range [...]string{"bearer", "basic", "token"} {
		if len(v) > len(s) && foldEqual(v[:len(s)], s) && isSpace(v[len(s)]) {
			return len(s) + 1
		}
	}
	return 0
}
