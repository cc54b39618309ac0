package httpd

import (
	"bytes"
)

// strictUnit is a piece of input that the parser has accepted as a whole.
type strictUnit uint8

const (
	unitMore  strictUnit = iota // nothing yet: call again with the same bytes and more
	unitSkip                    // framing that carries nothing: the CRLF before a request, the CRLF after a chunk
	unitHead                    // a complete head
	unitData                    // bytes of the body
	unitChunk                   // a chunk's size line; rest says how much data follows
	unitLast                    // the end of a chunked body, trailers included
)

// strictPhase is where the parser is between two units.
type strictPhase uint8

const (
	phaseHead    strictPhase = iota
	phaseBody                // rest bytes of a body with a Content-Length
	phaseSize                // a chunk's size line
	phaseData                // rest bytes of a chunk
	phaseDataEnd             // the CRLF after a chunk
	phaseTrailer             // trailer fields and the empty line
	phaseEnd                 // the request is complete
)

// strictSub is where the parser is inside a unit that is still incomplete.
type strictSub uint8

const (
	subMethod strictSub = iota
	subTarget
	subVersion
	subRequestLF
	subField // at the start of a line
	subName
	subValue
	subFieldLF
	subEndLF
)

// strictParser reads requests as RFC 9112 writes them and forgives nothing. It does no I/O and keeps no input: the
// caller holds the bytes of an incomplete unit and offers them again with more behind them; what was looked at is not
// looked at twice. It is one goroutine's.
type strictParser struct {
	headMax int
	bodyMax int64

	phase strictPhase
	sub   strictSub
	chunk chunkSub
	lead  bool // the one CRLF allowed before a request has been seen

	method       int    // where the method ends, in the head
	target, auth [2]int // where the target and the value of Authorization are, in the head

	pos, mark, colon int // offsets into the unit: next byte to look at, start of the token, end of the field name

	http10, closing, keepAlive, expect   bool
	chunked, hasLength, hasHost, hasAuth bool
	length, rest, total                  int64 // Content-Length; bytes to come of body or chunk; chunk data so far
	digits, extra                        int   // hex digits of the size; bytes of extensions and trailers so far
	size                                 uint64
}

// reset makes the parser ready for the next request of the connection.
func (p *strictParser) reset() { *p = strictParser{headMax: p.headMax, bodyMax: p.bodyMax} }

// next looks at b, the bytes that follow the last unit. It says how many of them make the next unit and which; or
// unitMore; or why the request is refused. After phaseEnd it must not be called before reset.
func (p *strictParser) next(b []byte) (int, strictUnit, *StrictError) {
	if len(b) == 0 {
		return 0, unitMore, nil
	}
	switch p.phase {
	case phaseHead:
		return p.nextHead(b)
	case phaseBody, phaseData:
		n := int(min(int64(len(b)), p.rest))
		p.rest -= int64(n)
		switch {
		case p.rest > 0:
		case p.phase == phaseData:
			p.phase = phaseDataEnd
		default:
			p.phase = phaseEnd
		}
		return n, unitData, nil
	case phaseSize:
		return p.nextSize(b)
	case phaseDataEnd:
		return p.nextDataEnd(b)
	case phaseTrailer:
		return p.nextTrailer(b)
	}
	return 0, unitMore, malformed("bytes after the end of the request")
}

func (p *strictParser) nextHead(b []byte) (int, strictUnit, *StrictError) {
	if p.pos == 0 && !p.lead && b[0] == '\r' {
		if len(b) == 1 {
			return 0, unitMore, nil
		}
		if b[1] != '\n' {
			return 0, unitMore, errBareCR()
		}
		p.lead = true
		return 2, unitSkip, nil
	}
	b = b[:min(len(b), p.headMax)]
	done, err := p.scanHead(b)
	switch {
	case err != nil:
		return 0, unitMore, err
	case done:
		n := p.pos
		if err := p.finishHead(); err != nil {
			return 0, unitMore, err
		}
		return n, unitHead, nil
	case len(b) == p.headMax:
		return 0, unitMore, tooLarge("headers", int64(p.headMax))
	}
	return 0, unitMore, nil
}

// scanHead goes on from p.pos. It reports true when the empty line has been passed.
func (p *strictParser) scanHead(b []byte) (bool, *StrictError) {
	for p.pos < len(b) {
		var err *StrictError
		switch p.sub {
		case subMethod:
			err = p.scanMethod(b)
		case subTarget:
			err = p.scanTarget(b)
		case subVersion:
			err = p.scanVersion(b)
		case subRequestLF:
			if b[p.pos] != '\n' {
				return false, errBareCR()
			}
			p.pos++
			p.sub = subField
		default:
			return p.scanFields(b)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

const longestMethod = len("UNSUBSCRIBE")

// scanMethod takes upper-case letters up to a space. Methods that HTTP does not have are refused, not routed: what
// comes after an unknown one (RTSP, PRI, CONNECT) may not be HTTP at all.
func (p *strictParser) scanMethod(b []byte) *StrictError {
	i := p.pos
	for i < len(b) && b[i] >= 'A' && b[i] <= 'Z' {
		i++
	}
	p.pos = i
	if i > longestMethod {
		return malformed("the method is not an HTTP method")
	}
	if i == len(b) {
		return nil
	}
	if b[i] != ' ' {
		return malformed("the method must be upper-case letters followed by one space")
	}
	switch string(b[:i]) {
	case "GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "QUERY",
		"COPY", "LOCK", "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "SEARCH", "UNLOCK", "BIND", "REBIND", "UNBIND", "ACL",
		"REPORT", "MKACTIVITY", "CHECKOUT", "MERGE", "NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE", "PURGE", "MKCALENDAR",
		"LINK", "UNLINK", "SOURCE":
	case "CONNECT":
		return malformed("CONNECT is not supported")
	case "PRI":
		return malformed("HTTP/2 is not supported")
	default:
		return malformed("the method is not an HTTP method")
	}
	p.method = i
	p.pos++
	p.mark, p.sub = p.pos, subTarget
	return nil
}

func (p *strictParser) scanTarget(b []byte) *StrictError {
	i := p.pos
	for i < len(b) && b[i] > ' ' && b[i] < 0x7f {
		i++
	}
	p.pos = i
	if i == len(b) {
		return nil
	}
	if b[i] != ' ' {
		return malformed("the request target holds a byte that is not visible ASCII, or no version follows it")
	}
	if !validTarget(b[p.mark:i]) {
		return malformed("the request target must begin with a slash, http:// or https://")
	}
	if bytes.IndexByte(b[p.mark:i], '#') >= 0 {
		return malformed("the request target holds a fragment")
	}
	p.target = [2]int{p.mark, i}
	p.pos++
	p.mark, p.sub = p.pos, subVersion
	return nil
}

func validTarget(t []byte) bool {
	if len(t) == 0 {
		return false
	}
	if t[0] == '/' {
		return true
	}
	scheme, rest, ok := bytes.Cut(t, []byte("://"))
	return ok && len(rest) > 0 && (isToken(scheme, "http") || isToken(scheme, "https"))
}

const versionPrefix = "HTTP/1."

func (p *strictParser) scanVersion(b []byte) *StrictError {
	for ; p.pos < len(b); p.pos++ {
		c, k := b[p.pos], p.pos-p.mark
		switch {
		case k < len(versionPrefix) && c == versionPrefix[k]:
		case k == len(versionPrefix) && (c == '0' || c == '1'):
			p.http10 = c == '0'
		case k == len(versionPrefix)+1 && c == '\r':
			p.pos++
			p.sub = subRequestLF
			return nil
		case k == len(versionPrefix)+1 && c == '\n':
			return errBareLF()
		default:
			return malformed("the version must be exactly HTTP/1.1 or HTTP/1.0")
		}
	}
	return nil
}

func errBareCR() *StrictError { return malformed("a CR that no LF follows") }
func errBareLF() *StrictError { return malformed("a line that ends with LF alone") }

func errLineStart(c byte) *StrictError {
	switch c {
	case ' ', '\t':
		return malformed("a header line that begins with a space or tab (line folding)")
	case '\n':
		return errBareLF()
	}
	return malformed("a header field name that is not a token followed by a colon")
}
