package httpd

// chunkSub is where the parser is inside a chunk's size line.
type chunkSub uint8

const (
	chunkDigits    chunkSub = iota
	chunkNameStart          // after a semicolon
	chunkName
	chunkValueStart // after an equals sign
	chunkValue
	chunkQuoted
	chunkEscaped // after a backslash in a quoted value
	chunkClosed  // after a quoted value
	chunkLF
)

const maxSizeDigits = 16

// nextSize reads a size line: hex digits, well-formed extensions without white space, CRLF. Extensions mean nothing to
// us.
func (p *strictParser) nextSize(b []byte) (int, strictUnit, *StrictError) {
	b = b[:min(len(b), p.headMax)]
	for p.pos < len(b) && p.chunk != chunkLF {
		if err := p.chunkByte(b[p.pos]); err != nil {
			return 0, unitMore, err
		}
		p.pos++
	}
	if p.pos == len(b) {
		if len(b) == p.headMax {
			return 0, unitMore, tooLarge("chunk extensions", int64(p.headMax))
		}
		return 0, unitMore, nil
	}
	if b[p.pos] != '\n' {
		return 0, unitMore, errBareCR()
	}
	return p.finishSize(p.pos + 1)
}

func (p *strictParser) finishSize(n int) (int, strictUnit, *StrictError) {
	if p.extra += n - p.digits - len("\r\n"); p.extra > p.headMax {
		return 0, unitMore, tooLarge("chunk extensions", int64(p.headMax))
	}
	if p.size > uint64(p.bodyMax-p.total) {
		return 0, unitMore, tooLarge("body", p.bodyMax)
	}
	p.rest = int64(p.size)
	p.total += p.rest
	p.phase = phaseData
	if p.rest == 0 {
		p.phase, p.sub = phaseTrailer, subField
	}
	p.pos, p.digits, p.size, p.chunk = 0, 0, 0, chunkDigits
	return n, unitChunk, nil
}

// chunkByte takes one byte of the size line, its LF excepted.
func (p *strictParser) chunkByte(c byte) *StrictError {
	switch p.chunk {
	case chunkDigits:
		if v, ok := hexDigit(c); ok {
			if p.digits++; p.digits > maxSizeDigits {
				return malformed("a chunk size of more than 16 digits")
			}
			p.size = p.size<<4 | uint64(v)
			return nil
		}
		if p.digits == 0 {
			return malformed("a chunk size that does not begin with a hexadecimal digit")
		}
		return p.chunkNext(c, false)
	case chunkNameStart, chunkValueStart:
		return p.chunkWord(c)
	case chunkName, chunkValue:
		if tokenByte[c] {
			return nil
		}
		return p.chunkNext(c, p.chunk == chunkName)
	case chunkQuoted:
		return p.chunkQuote(c)
	case chunkEscaped:
		p.chunk = chunkQuoted
		if isControl(c) {
			return errQuoted()
		}
		return nil
	}
	return p.chunkNext(c, false)
}

// chunkNext takes the byte after a size, a name or a value.
func (p *strictParser) chunkNext(c byte, name bool) *StrictError {
	switch {
	case c == ';':
		p.chunk = chunkNameStart
	case c == '\r':
		p.chunk = chunkLF
	case c == '=' && name:
		p.chunk = chunkValueStart
	case c == '\n':
		return errBareLF()
	default:
		return malformed("a chunk size line with a byte that does not belong there")
	}
	return nil
}

// chunkWord takes the first byte of a name or a value.
func (p *strictParser) chunkWord(c byte) *StrictError {
	switch {
	case tokenByte[c]:
		p.chunk++
	case c == '"' && p.chunk == chunkValueStart:
		p.chunk = chunkQuoted
	default:
		return malformed("a malformed chunk extension")
	}
	return nil
}

func (p *strictParser) chunkQuote(c byte) *StrictError {
	switch {
	case c == '"':
		p.chunk = chunkClosed
	case c == '\\':
		p.chunk = chunkEscaped
	case isControl(c):
		return errQuoted()
	}
	return nil
}

func errQuoted() *StrictError {
	return malformed("a control character in the quoted value of a chunk extension")
}

func isControl(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f }

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func (p *strictParser) nextDataEnd(b []byte) (int, strictUnit, *StrictError) {
	if b[0] != '\r' || len(b) > 1 && b[1] != '\n' {
		return 0, unitMore, malformed("a chunk whose data is not followed by CRLF")
	}
	if len(b) == 1 {
		return 0, unitMore, nil
	}
	p.phase = phaseSize
	return 2, unitSkip, nil
}

func (p *strictParser) nextTrailer(b []byte) (int, strictUnit, *StrictError) {
	b = b[:min(len(b), p.headMax-p.extra+len("\r\n"))]
	done, err := p.scanFields(b)
	switch {
	case err != nil:
		return 0, unitMore, err
	case done:
		p.phase = phaseEnd
		return p.pos, unitLast, nil
	case len(b) >= p.headMax-p.extra+len("\r\n"):
		return 0, unitMore, tooLarge("trailers", int64(p.headMax))
	}
	return 0, unitMore, nil
}
