package check

import (
	"fmt"
	"unicode/utf8"
)

// cursor reads one section of a binary. The first error sticks: later reads give zeros, so that callers check once at
// the end of each loop. No read ever allocates by a number that the binary claims; see count.
type cursor struct {
	b    []byte
	i    int
	base int // offset of b in the file, for messages
	err  error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = refusef("byte %d: %s", c.base+c.i, fmt.Sprintf(format, args...))
		c.i = len(c.b)
	}
}

func (c *cursor) left() int { return len(c.b) - c.i }

func (c *cursor) byte() byte {
	if c.left() < 1 {
		c.fail("unexpected end")
		return 0
	}
	c.i++
	return c.b[c.i-1]
}

// uint reads an unsigned LEB128 number of at most 32 bits.
func (c *cursor) uint() uint32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		x := c.byte()
		if shift == 28 && x > 0x0f {
			c.fail("number longer than 32 bits")
			return 0
		}
		v |= uint32(x&0x7f) << shift
		if x < 0x80 {
			return v
		}
	}
	return 0
}

// skipInt passes a signed LEB128 number of at most n bytes; wazero checks its value.
func (c *cursor) skipInt(n int) {
	for range n {
		if c.byte() < 0x80 {
			return
		}
	}
	c.fail("number longer than %d bytes", n)
}

func (c *cursor) nextBytes(n uint32) []byte {
	if uint64(n) > uint64(c.left()) {
		c.fail("%d bytes wanted, %d left", n, c.left())
		return nil
	}
	c.i += int(n)
	return c.b[c.i-int(n) : c.i]
}

// name reads a UTF-8 name.
func (c *cursor) name() string {
	b := c.nextBytes(c.uint())
	if !utf8.Valid(b) {
		c.fail("name is not UTF-8")
		return ""
	}
	return string(b)
}

// count reads how many elements follow, each of at least size bytes, at most limit. A count that what is left cannot
// hold is refused here, because decoders that allocate first die of it.
func (c *cursor) count(what string, size, limit int) int {
	n := c.uint()
	switch {
	case c.err != nil:
		return 0
	case uint64(n)*uint64(size) > uint64(c.left()):
		c.fail("%d %s do not fit into the %d bytes left", n, what, c.left())
		return 0
	case uint64(n) > uint64(limit):
		c.fail("%d %s: at most %d are allowed", n, what, limit)
		return 0
	}
	return int(n)
}

// end makes sure that nothing is left over.
func (c *cursor) end(what string) {
	if c.left() > 0 {
		c.fail("%d bytes left over behind %s", c.left(), what)
	}
}
