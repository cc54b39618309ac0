package execrun

import "unicode/utf8"

// plain makes of what a program prints the text that is scanned, which the agent reads as it is. It is UTF-8: a byte
// that belongs to no character becomes U+FFFD. Terminal sequences and control characters are left out, because they
// could stand inside a secret, where no scanner sees through them and every terminal does. A NUL byte ends the text: it
// is no text, and in UTF-16 it stands between the letters of a secret.
type plain struct {
	part   []byte // the start of a character whose rest has not come
	state  escape
	binary bool // there was a NUL
}

// escape says where in a terminal sequence (ECMA-48) the text stands.
type escape uint8

const (
	ground  escape = iota
	escaped        // behind ESC
	inside         // behind ESC and intermediate bytes
	control        // in a control sequence, behind ESC [
	text           // in a command string, such as a title, up to BEL, ESC \ or the end of the line
)

const bel, esc, del = 0x07, 0x1b, 0x7f

// add appends the text of the next bytes to dst.
func (p *plain) add(dst, in []byte) []byte {
	if len(p.part) > 0 {
		in = append(p.part, in...)
		p.part = nil
	}
	for len(in) > 0 && !p.binary {
		if !utf8.FullRune(in) {
			p.part = append([]byte(nil), in...)
			break
		}
		r, n := utf8.DecodeRune(in)
		in = in[n:]
		if r == 0 {
			p.binary = true
		} else if p.shows(r) {
			dst = utf8.AppendRune(dst, r) // U+FFFD for what is no character
		}
	}
	return dst
}

// end appends what is left when no more bytes come.
func (p *plain) end(dst []byte) []byte {
	if len(p.part) == 0 || p.binary {
		return dst
	}
	p.part = nil
	if p.shows(utf8.RuneError) {
		dst = utf8.AppendRune(dst, utf8.RuneError)
	}
	return dst
}

// shows reports whether a character belongs to the text.
func (p *plain) shows(r rune) bool {
	if r == esc {
		p.state = escaped // also in the middle of another sequence
		return false
	}
	switch p.state {
	case escaped, inside:
		return p.escape(r)
	case control:
		if r >= 0x20 && r < 0x40 {
			return false
		}
		p.state = ground
		return (r < 0x20 || r > 0x7e) && visible(r) // else the sequence's last byte
	case text:
		if r != bel && r != '\n' {
			return false
		}
		p.state = ground
		return r == '\n'
	}
	return visible(r)
}

func (p *plain) escape(r rune) bool {
	was := p.state
	switch {
	case r >= 0x20 && r < 0x30:
		p.state = inside
		return false
	case was == escaped && r == '[':
		p.state = control
		return false
	case was == escaped && (r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_'):
		p.state = text
		return false
	}
	p.state = ground
	return (r < 0x30 || r > 0x7e) && visible(r)
}

// visible reports whether a character outside of sequences is text: C0 and C1 controls are not, but for those that move
// to another place on the page.
func visible(r rune) bool {
	switch r {
	case '\t', '\n', '\v', '\f', '\r':
		return true
	}
	return r >= 0x20 && r != del && (r < 0x80 || r >= 0xa0)
}
