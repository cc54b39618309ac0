package chain

import (
	"fmt"
	"testing"
)

// What redaction must not do to a JSON value is found, whatever it is.
func TestSameShape(t *testing.T) {
	for _, c := range []struct {
		came, redacted string
		same           bool
	}{
		{`{"a":[1.50,null,"x",{}]}`, `{"a":[1.50,null,"y",{}]}`, true},
		{`{"a":1,"b":2}`, `{"[K]@2":1,"b":"[K]"}`, true},
		{`[1,true,{},[],null]`, `["#","#","#","#","#"]`, true},
		{`[1]`, `[2]`, false},
		{`[1.50]`, `[1.5]`, false},
		{`[true]`, `[false]`, false},
		{`[1]`, `[null]`, false},
		{`["1"]`, `[1]`, false},
		{`[[1]]`, `["#"]`, false},
		{`[{"a":1}]`, `["#"]`, false},
		{`[1,2]`, `[1]`, false},
		{`[1]`, `[1,2]`, false},
		{`{"a":1,"b":2}`, `{"a":1}`, false},
		{`{"a":{"b":1}}`, `{"a":{"b":1,"c":"#"}}`, false},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, false},
		{`{"a":1,"b":2}`, `{"b":1,"b":2}`, false},
		{`[]`, `{}`, false},
		{`[1]`, `[1`, false},
		{`[1`, `[1]`, false},
	} {
		if err := sameShape(c.came, c.redacted); (err == nil) != c.same {
			t.Errorf("%s as %s: %v", c.came, c.redacted, err)
		}
	}
	deep := func(in string) string { return fmt.Sprintf(`[[[[{"a":[%s,{"b":%s}]}]]]]`, in, in) }
	if err := sameShape(deep("1"), deep("2")); err == nil {
		t.Error("deep inside a number is another one")
	}
}
