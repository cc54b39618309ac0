package wasmhost

// skipConst passes a constant expression.
func skipConst(c *cursor) {
	for c.err == nil {
		switch op := c.byte(); op {
		case 0x0b: // end
			return
		case 0x23, 0xd2: // global.get, ref.func
			c.uint()
		case 0x41: // i32.const
			c.skipInt(5)
		case 0x42: // i64.const
			c.skipInt(10)
		case 0x43: // f32.const
			c.take(4)
		case 0x44: // f64.const
			c.take(8)
		case 0xd0: // ref.null
			c.byte()
		case 0xfd: // v128.const
			if sub := c.uint(); sub != 12 {
				c.fail("vector instruction %d in a constant expression", sub)
			}
			c.take(16)
		default:
			c.fail("instruction %#x in a constant expression", op)
		}
	}
}

// readElements passes the element segments. The three low bits of their flags say which parts are there.
func readElements(c *cursor) {
	total := 0
	for range c.count("element segments", 2, maxSegments) {
		flags := c.uint()
		if flags > 7 {
			c.fail("element segment of kind %d", flags)
		}
		active, explicit, exprs := flags&1 == 0, flags&2 != 0, flags&4 != 0
		if active {
			if explicit {
				c.uint() // table
			}
			skipConst(c)
		}
		if !active || explicit {
			c.byte() // element kind or reference type
		}
		n := c.count("elements", 1, maxTableMin)
		if total += n; total > maxElements {
			c.fail("more than %d elements in all segments", maxElements)
		}
		for range n {
			if exprs {
				skipConst(c)
			} else {
				c.uint()
			}
			if c.err != nil {
				return
			}
		}
		if c.err != nil {
			return
		}
	}
}

// readBodies checks how the function bodies are framed and how many locals they claim; their instructions are wazero's to
// validate.
func (s *shape) readBodies(c *cursor) {
	for range c.count("function bodies", 3, maxFuncs) {
		body := c.take(c.uint())
		if c.err != nil {
			return
		}
		in := &cursor{b: body, base: c.base + c.i - len(body)}
		var locals uint64
		for range in.count("groups of locals", 2, maxLocals) {
			locals += uint64(in.uint())
			in.byte()
		}
		switch {
		case in.err != nil:
			c.err = in.err
		case locals > maxLocals:
			c.fail("a function with %d locals: at most %d are allowed", locals, maxLocals)
		case len(body) == 0 || body[len(body)-1] != 0x0b:
			c.fail("a function body without an end")
		}
		s.bodies++
	}
}

func readData(c *cursor) {
	for range c.count("data segments", 2, maxSegments) {
		switch mode := c.uint(); mode {
		case 0:
			skipConst(c)
		case 1:
		case 2:
			c.uint() // memory
			skipConst(c)
		default:
			c.fail("data segment of kind %d", mode)
		}
		c.take(c.uint())
		if c.err != nil {
			return
		}
	}
}
