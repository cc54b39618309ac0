package httpd

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// tokenByte marks the bytes of an RFC 9110 token.
var tokenByte = byteSet("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

// hostByte marks the bytes of a Host value: unreserved, percent, sub-delims, and what IPv6 and a port need.
var hostByte = byteSet("-._~%!$&'()*+,;=:[]0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

func byteSet(s string) (set [256]bool) {
	for i := range len(s) {
		set[s[i]] = true
	}
	return set
}

// isToken compares without regard to ASCII case; lower must be lower-case.
func isToken(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := range len(lower) {
		c := b[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func trimOWS(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// scanFields goes on through field lines, of the head or of the trailers. It reports true when the empty line has been
// passed.
func (p *strictParser) scanFields(b []byte) (bool, *StrictError) {
	for p.pos < len(b) {
		c := b[p.pos]
		switch p.sub {
		case subField:
			switch {
			case c == '\r':
				p.pos++
				p.sub = subEndLF
			case tokenByte[c]:
				p.mark, p.sub = p.pos, subName
				if err := p.scanName(b); err != nil {
					return false, err
				}
			default:
				return false, errLineStart(c)
			}
		case subName:
			if err := p.scanName(b); err != nil {
				return false, err
			}
		case subValue:
			if err := p.scanValue(b); err != nil {
				return false, err
			}
		default:
			if c != '\n' {
				return false, errBareCR()
			}
			p.pos++
			if p.sub == subEndLF {
				return true, nil
			}
			if err := p.field(b[p.mark:p.colon], trimOWS(b[p.colon+1:p.pos-2])); err != nil {
				return false, err
			}
			p.sub = subField
		}
	}
	return false, nil
}

func (p *strictParser) scanName(b []byte) *StrictError {
	i := p.pos
	for i < len(b) && tokenByte[b[i]] {
		i++
	}
	p.pos = i
	if i == len(b) {
		return nil
	}
	switch b[i] {
	case ':':
		p.colon, p.sub = i, subValue
		p.pos++
		return p.scanValue(b)
	case ' ', '\t':
		return malformed("a space before the colon of a header field")
	case '\n':
		return errBareLF()
	}
	return malformed("a header field name that is not a token followed by a colon")
}

const (
	eachByte = 0x0101010101010101
	highBits = 0x8080808080808080
)

// scanValue passes what a field value may hold, eight bytes at a time: control characters and tabs are flagged in the
// high bits of a word. Only the lowest flag is exact, since a borrow runs upwards, and only the lowest is used.
func (p *strictParser) scanValue(b []byte) *StrictError {
	i := p.pos
	for i < len(b) {
		if i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			del := x ^ eachByte*0x7f
			flags := ((x-eachByte*0x20)&^x | (del-eachByte)&^del) & highBits
			if flags == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(flags) / 8
		}
		if isControl(b[i]) {
			break
		}
		i++
	}
	p.pos = i
	if i == len(b) {
		return nil
	}
	switch b[i] {
	case '\r':
		p.pos++
		p.sub = subFieldLF
		return nil
	case '\n':
		return errBareLF()
	}
	return malformed("a control character in a header field value")
}

// field takes note of the fields that decide about framing, connection and identity; all others are only well-formed.
func (p *strictParser) field(name, value []byte) *StrictError {
	if p.phase == phaseTrailer {
		return trailerField(name)
	}
	switch len(name) {
	case len("host"):
		if isToken(name, "host") {
			return p.fieldHost(value)
		}
	case len("expect"):
		if isToken(name, "expect") {
			p.expect = p.expect || isToken(value, "100-continue")
		}
	case len("upgrade"):
		if isToken(name, "upgrade") {
			return malformed("Upgrade is not supported")
		}
	case len("connection"):
		if isToken(name, "connection") {
			p.fieldConnection(value)
		}
	case len("authorization"):
		if isToken(name, "authorization") {
			if p.hasAuth {
				return malformed("two Authorization headers")
			}
			p.hasAuth = true
			p.auth = [2]int{p.colon + 1, p.pos - len("\r\n")}
		}
	case len("content-length"):
		if isToken(name, "content-length") {
			return p.fieldLength(value)
		}
	case len("transfer-encoding"):
		if isToken(name, "transfer-encoding") {
			return p.fieldCoding(value)
		}
	}
	return nil
}

func (p *strictParser) fieldHost(value []byte) *StrictError {
	if p.hasHost {
		return malformed("two Host headers")
	}
	p.hasHost = true
	if len(value) == 0 {
		return malformed("an empty Host header")
	}
	for _, c := range value {
		if !hostByte[c] {
			return malformed("a Host header with a byte that no host name has")
		}
	}
	return nil
}

// fieldConnection reads the options of every Connection header. A single "close" among them counts, whatever the others
// say.
func (p *strictParser) fieldConnection(value []byte) {
	for len(value) > 0 {
		var option []byte
		option, value, _ = bytes.Cut(value, []byte{','})
		option = trimOWS(option)
		if isToken(option, "close") {
			p.closing = true
		} else if isToken(option, "keep-alive") {
			p.keepAlive = true
		}
	}
}

func (p *strictParser) fieldLength(value []byte) *StrictError {
	if p.hasLength {
		return malformed("two Content-Length headers")
	}
	if p.chunked {
		return errLengthAndCoding()
	}
	p.hasLength = true
	if len(value) == 0 {
		return malformed("an empty Content-Length")
	}
	const most = (1<<63 - 1 - 9) / 10
	for _, c := range value {
		if c < '0' || c > '9' {
			return malformed("a Content-Length that is not digits alone")
		}
		if p.length > most {
			return malformed("a Content-Length that no number can hold")
		}
		p.length = p.length*10 + int64(c-'0')
	}
	return nil
}

func (p *strictParser) fieldCoding(value []byte) *StrictError {
	switch {
	case p.chunked:
		return malformed("two Transfer-Encoding headers")
	case p.hasLength:
		return errLengthAndCoding()
	case p.http10:
		return malformed("Transfer-Encoding in an HTTP/1.0 request")
	case !isToken(value, "chunked"):
		return malformed("a Transfer-Encoding other than chunked")
	}
	p.chunked = true
	return nil
}

func errLengthAndCoding() *StrictError {
	return malformed("both Content-Length and Transfer-Encoding")
}

// finishHead decides what follows the head.
func (p *strictParser) finishHead() *StrictError {
	if !p.hasHost && !p.http10 {
		return malformed("no Host header")
	}
	if p.length > p.bodyMax {
		return tooLarge("body", p.bodyMax)
	}
	p.closing = p.closing || p.http10 && !p.keepAlive
	p.pos = 0
	switch {
	case p.chunked:
		p.phase = phaseSize
	case p.length > 0:
		p.phase, p.rest = phaseBody, p.length
	default:
		p.phase = phaseEnd
	}
	return nil
}

// notTrailers are the fields that RFC 9110 6.5.1 keeps out of trailers, as far as anything here could act on them.
var notTrailers = []string{
	"authorization", "connection", "content-encoding", "content-length", "content-type", "content-range", "cookie",
	"expect", "host", "idempotency-key", "keep-alive", "max-forwards", "proxy-authorization", "proxy-connection", "te",
	"trailer", "transfer-encoding", "upgrade",
}

func trailerField(name []byte) *StrictError {
	for _, n := range notTrailers {
		if isToken(name, n) {
			return malformed("a trailer field that must be a header: " + n)
		}
	}
	return nil
}
