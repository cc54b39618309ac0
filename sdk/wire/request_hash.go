package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// RequestHash is the request_hash of an action: lower-case hex SHA-256 of the canonical JSON of {agent_id, tool,
// operation, params, context}, which public clients compute on their side to compare. params and context are objects;
// absent or null counts as {}, as clients send it. It is an *sdk.Error naming the field when one is no object, or holds
// a number that is no finite double: clients refuse to hash those, so there is nothing to agree on. It is not the
// digest that approvals bind to: numbers written as floats are rounded to doubles here, as the clients' are. Safe for
// concurrent use.
func RequestHash(agentID, tool, operation string, params, context exact.Value) (string, error) {
	c := clientForm{sum: sha256.New()}
	c.raw(`{"agent_id":`)
	c.str(agentID)
	c.raw(`,"context":`) // the names of the five are sorted too
	if err := c.object("context", context); err != nil {
		return "", err
	}
	c.raw(`,"operation":`)
	c.str(operation)
	c.raw(`,"params":`)
	if err := c.object("params", params); err != nil {
		return "", err
	}
	c.raw(`,"tool":`)
	c.str(tool)
	c.raw("}")
	c.flush()
	return hex.EncodeToString(c.sum.Sum(nil)), nil
}

// clientForm hashes values in the canonical form of the public clients. It hashes as it goes: a body of numbers like
// 1e300 would otherwise be fifty times its size in memory.
type clientForm struct {
	sum hash.Hash
	buf []byte
}

// flushAt is when the buffer goes into the hash, in bytes.
const flushAt = 4096

func (c *clientForm) raw(s string) {
	c.buf = append(c.buf, s...)
	c.flushFull()
}

func (c *clientForm) str(s string) {
	c.buf = exact.AppendString(c.buf, s)
	c.flushFull()
}

func (c *clientForm) flushFull() {
	if len(c.buf) >= flushAt {
		c.flush()
	}
}

func (c *clientForm) flush() {
	c.sum.Write(c.buf) // a hash never gives an error
	c.buf = c.buf[:0]
}

// object is the value of params or context.
func (c *clientForm) object(field string, v exact.Value) error {
	switch v.Kind() {
	case exact.Absent, exact.Null:
		c.raw("{}")
		return nil
	case exact.Object:
		return c.value(field, v)
	}
	return sdk.FieldErrf(sdk.CodeInvalidField, field, "%s must be an object, not %v", field, v.Kind())
}

func (c *clientForm) value(field string, v exact.Value) error {
	switch v.Kind() {
	case exact.Number:
		return c.number(field, v.Raw())
	case exact.String:
		c.str(v.Str())
	case exact.Array:
		sep := "["
		for e := range v.Elements() {
			c.raw(sep)
			if err := c.value(field, e); err != nil {
				return err
			}
			sep = ","
		}
		if v.Len() == 0 {
			c.raw("[")
		}
		c.raw("]")
	case exact.Object:
		return c.members(field, v)
	default:
		c.raw(v.Raw()) // true, false, null
	}
	return nil
}

type member struct {
	name string
	v    exact.Value
}

// members writes an object with its names in the order of their code points, which is the byte order of UTF-8. The
// Python client does so; the JavaScript one orders by UTF-16 units, which differs only for a name with a character
// beyond U+FFFF against one from U+E000 on.
func (c *clientForm) members(field string, v exact.Value) error {
	var room [16]member
	list := room[:0]
	for name, m := range v.Members() {
		list = append(list, member{name, m})
	}
	slices.SortFunc(list, func(a, b member) int { return strings.Compare(a.name, b.name) })
	c.raw("{")
	for i, m := range list {
		if i > 0 {
			c.raw(",")
		}
		c.str(m.name)
		c.raw(":")
		if err := c.value(field, m.v); err != nil {
			return err
		}
	}
	c.raw("}")
	return nil
}

// number writes an integer digit for digit and everything with a point or an exponent as the shortest decimal that
// reads back as the same double, written out in full. The JavaScript client makes doubles of integers too; beyond 2^53
// it has rounded them before it sends them, so that both ends still agree.
func (c *clientForm) number(field, raw string) error {
	if !strings.ContainsAny(raw, ".eE") {
		if raw == "-0" {
			raw = "0"
		}
		c.raw(raw)
		return nil
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		return sdk.FieldErrf(sdk.CodeInvalidField, field,
			"%s has a number beyond the range of a double, for which there is no request_hash", field)
	}
	if f == 0 {
		f = 0 // and not minus zero
	}
	c.buf = strconv.AppendFloat(c.buf, f, 'f', -1, 64)
	c.flushFull()
	return nil
}
