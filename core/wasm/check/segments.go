package check

import "encoding/binary"

// constant passes a constant expression, which is one instruction and an end, and gives its bytes.
func (s *shape) constant(c *cursor) []byte { return s.shiftedConstant(c, 0) }

// shiftedConstant gives it with every function index shifted.
func (s *shape) shiftedConstant(c *cursor, shift uint32) []byte {
	from := c.i
	switch op := c.byte(); op {
	case opGlobalGet:
		if i := c.uint(); c.err == nil && uint64(i) >= uint64(s.globalCount) {
			c.fail("global %d in a constant expression: there is no such global before it", i)
		}
	case opRefFunc:
		i := c.uint()
		s.funcIndex(c, i)
		if c.byte() != opEnd {
			c.fail("constant expression of more than one instruction")
		}
		if shift == 0 {
			s.declared = append(s.declared, i)
		}
		return append(binary.AppendUvarint([]byte{opRefFunc}, uint64(i)+uint64(shift)), opEnd)
	case opI32Const:
		c.skipInt(5)
	case opI64Const:
		c.skipInt(10)
	case opF32Const:
		c.nextBytes(4)
	case opF64Const:
		c.nextBytes(8)
	case opRefNull:
		if t := c.byte(); c.err == nil && t != valFuncref && t != valExtern {
			c.fail("null reference of type %#x", t)
		}
	case prefixVector:
		if sub := c.byte(); sub != 12 {
			c.fail("vector instruction %d in a constant expression", sub)
		}
		c.nextBytes(16)
	default:
		c.fail("instruction %#x in a constant expression", op)
	}
	if c.byte() != opEnd {
		c.fail("constant expression of more than one instruction")
	}
	if c.err != nil {
		return nil
	}
	return c.b[from:c.i]
}

// elements passes the element segments and gives them with every function index shifted. The three low bits of a
// segment's flags say which parts are there.
func (s *shape) elements(c *cursor, shift uint32) []byte {
	n := c.count("element segments", 2, maxSegments)
	out := binary.AppendUvarint(make([]byte, 0, len(c.b)), uint64(n))
	total := 0
	for range n {
		flags := c.uint()
		if flags > 7 {
			c.fail("element segment of kind %d", flags)
		}
		out = append(out, byte(flags))
		active, explicit, exprs := flags&1 == 0, flags&2 != 0, flags&4 != 0
		if active {
			if explicit {
				out = binary.AppendUvarint(out, uint64(c.uint())) // table
			}
			out = append(out, s.shiftedConstant(c, shift)...)
		}
		if !active || explicit {
			kind := c.byte()
			if c.err == nil && (exprs && kind != valFuncref && kind != valExtern || !exprs && kind != 0) {
				c.fail("elements of kind %#x", kind)
			}
			out = append(out, kind)
		}
		n := c.count("elements", 1, maxTableMin)
		if total += n; total > maxElements {
			c.fail("more than %d elements in all segments", maxElements)
		}
		out = binary.AppendUvarint(out, uint64(n))
		for range n {
			if exprs {
				out = append(out, s.shiftedConstant(c, shift)...)
			} else {
				out = s.element(c, shift, out)
			}
			if c.err != nil {
				return nil
			}
		}
		s.elementN++
		if c.err != nil {
			return nil
		}
	}
	return out
}

func (s *shape) element(c *cursor, shift uint32, out []byte) []byte {
	i := c.uint()
	s.funcIndex(c, i)
	if shift == 0 {
		s.declared = append(s.declared, i)
	}
	return binary.AppendUvarint(out, uint64(i)+uint64(shift))
}

// readBodies checks how the function bodies are framed and how many locals they claim. checkFlow reads the
// instructions.
func (s *shape) readBodies(c *cursor) {
	for range c.count("function bodies", 3, maxFuncs) {
		body := c.nextBytes(c.uint())
		if c.err != nil {
			return
		}
		if len(body) > maxBody {
			c.fail("a function of %d bytes: at most %d are allowed", len(body), maxBody)
			return
		}
		in := &cursor{b: body, base: c.base + c.i - len(body)}
		var f function
		var locals uint64
		f.ngroup = uint32(in.count("groups of locals", 2, maxLocals))
		from := in.i
		for range f.ngroup {
			n := in.uint()
			locals += uint64(n)
			t := in.byte()
			switch {
			case in.err == nil && !isValue(t):
				in.fail("local of type %#x", t)
			case t == valV128:
				f.wide += min(n, maxLocals)
			}
		}
		switch {
		case in.err != nil:
			c.err = in.err
			return
		case locals > maxLocals:
			c.fail("a function with %d locals: at most %d are allowed", locals, maxLocals)
			return
		case in.left() == 0 || body[len(body)-1] != opEnd:
			c.fail("a function body without an end")
			return
		}
		f.groups, f.locals, f.code, f.at = body[from:in.i], uint32(locals), body[in.i:], in.base+in.i
		s.bodies = append(s.bodies, f)
	}
}

func (s *shape) readData(c *cursor) {
	s.dataN = c.count("data segments", 2, maxSegments)
	for range s.dataN {
		switch mode := c.uint(); mode {
		case 0:
			s.constant(c)
		case 1:
		case 2:
			c.uint() // memory
			s.constant(c)
		default:
			c.fail("data segment of kind %d", mode)
		}
		c.nextBytes(c.uint())
		if c.err != nil {
			return
		}
	}
}

func readTable(c *cursor) limits {
	of := c.byte()
	if c.err == nil && of != valFuncref && of != valExtern {
		c.fail("table of type %#x", of)
	}
	l := readLimits(c)
	l.of = of
	switch {
	case l.shared:
		c.fail("a table cannot be shared")
	case l.min > maxTableMin:
		c.fail("table of %d elements: at most %d are allowed", l.min, maxTableMin)
	case l.capped && l.max < l.min:
		c.fail("table of at least %d and at most %d elements", l.min, l.max)
	}
	return l
}

// boundTables holds all tables together against the bound for one.
func (s *shape) boundTables(c *cursor) {
	var all uint64
	for _, t := range s.tables {
		all += uint64(t.min)
	}
	if c.err == nil && all > maxTableMin {
		c.fail("tables of %d elements in all: at most %d are allowed", all, maxTableMin)
	}
}

// boundedTables writes the table section anew with a maximum for every table: tables lie outside the runtime's memory
// limit, and without one a single table.grow takes gigabytes of ours. A guest sees a growth beyond it fail, as it must
// expect of any. The element type, the sizes and the order stay, so no index changes.
func (s *shape) boundedTables() []byte {
	body := binary.AppendUvarint(nil, uint64(len(s.tables)))
	for _, t := range s.tables {
		bound := max(t.min, maxTableMin/uint32(len(s.tables)))
		if t.capped {
			bound = min(bound, t.max)
		}
		body = append(body, t.of, 1)
		body = binary.AppendUvarint(body, uint64(t.min))
		body = binary.AppendUvarint(body, uint64(bound))
	}
	return body
}

func readMemory(c *cursor) limits {
	l := readLimits(c)
	switch {
	case l.min > maxPages || l.max > maxPages:
		c.fail("memory of %d pages: there are at most %d", max(l.min, l.max), maxPages)
	case l.capped && l.max < l.min:
		c.fail("memory of at least %d and at most %d pages", l.min, l.max)
	case l.shared && !l.capped:
		c.fail("shared memory without a maximum")
	}
	return l
}

func readLimits(c *cursor) limits {
	flags := c.byte()
	if flags > 7 {
		c.fail("limits of kind %d", flags)
	}
	l := limits{capped: flags&1 != 0, shared: flags&2 != 0, wide: flags&4 != 0}
	if l.wide {
		c.fail("64-bit memories and tables are not supported")
		return l
	}
	l.min = c.uint()
	if l.capped {
		l.max = c.uint()
	}
	return l
}

func readGlobalType(c *cursor) global {
	g := global{of: c.byte()}
	if c.err == nil && !isValue(g.of) {
		c.fail("global of type %#x", g.of)
	}
	switch mutable := c.byte(); mutable {
	case 0:
	case 1:
		g.mutable = true
	default:
		c.fail("global of mutability %d", mutable)
	}
	return g
}
