package loaded

import (
	"errors"
	"testing"

	"github.com/yett-dev/yett/core/ops"
)

func TestCompilePolicy(t *testing.T) {
	for _, c := range []struct {
		name, text   string
		line, column int
		want         string
	}{
		{"good", "rules: [{id: a, tools: ['x'], effect: permit}]", 0, 0, ""},
		{"JSON", `{"rules":[{"id":"a","tools":["x"],"effect":"deny"}]}`, 0, 0, ""},
		{"no YAML", "rules: [", 2, 0, ""},
		{"unknown key", "rules:\n  - {id: a, tools: ['x'], effect: permit, wehn: 'true'}", 2, 43, `rules[0].wehn: unknown key; did you mean "when"?`},
		{"a condition that is none", "rules:\n  - {id: a, tools: ['x'], effect: permit, when: '1 +'}", 2, 5, ""},
		{"a condition of the second rule", "rules:\n  - {id: a, tools: ['x'], effect: permit}\n  -   {id: b, tools: ['x'], effect: permit, when: '1 +'}", 3, 7, ""},
		{"a reference is text, not a file", "rules: [{id: '${file:/etc/passwd}', tools: ['x'], effect: permit}]", 1, 14, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := CompilePolicy(c.text)
			if c.line == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var p *ops.PolicyError
			if !errors.As(err, &p) || len(p.Faults) == 0 {
				t.Fatalf("got %v", err)
			}
			f := p.Faults[0]
			if f.Line != c.line || c.column != 0 && f.Column != c.column || c.want != "" && f.Msg != c.want {
				t.Errorf("got %+v", f)
			}
		})
	}
}
