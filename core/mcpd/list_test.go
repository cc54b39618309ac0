package mcpd_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
)

const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// A caller is told of the tools that it may call, and of none whose description may not be passed on.
func TestToolsAreFiltered(t *testing.T) {
	const read = `{"name":"read","description":"r","inputSchema":{"maximum":12345678901234567890},"x":1.0}`
	for _, c := range []struct{ name, result, want string }{
		{"all", `{ "tools":[` + read + `],"nextCursor":"c", "ttlMs":1}`, `{ "tools":[` + read + `],"nextCursor":"c", "ttlMs":1}`},
		{"never", `{"tools":[{"name":"never"},` + read + `],"nextCursor":"c"}`, `{"tools":[` + read + `],"nextCursor":"c"}`},
		{"none left", `{"tools":[{"name":"never"}],"nextCursor":"c"}`, `{"tools":[],"nextCursor":"c"}`},
		{"not offered", `{"tools":[{"name":"hidden"},` + read + `]}`, `{"tools":[` + read + `]}`},
		{"named as a method", `{"tools":[{"name":"resources/read"},` + read + `]}`, `{"tools":[` + read + `]}`},
		{"no name", `{"tools":[{"title":"read"},1,` + read + `]}`, `{"tools":[` + read + `]}`},
		{"poisoned", `{"tools":[{"name":"poisoned","description":"F0RB1D"},` + read + `]}`, `{"tools":[` + read + `]}`},
		{"redacted", `{"tools":[{"name":"said","description":"a S3CR3T","n":1.0}]}`,
			`{"tools":[{"name":"said","description":"a [hidden]","n":1.0}]}`},
		{"beside", `{"tools":[` + read + `],"instructions":"S3CR3T"}`, `{"tools":[` + read + `],"instructions":"[hidden]"}`},
		{"public", `{"tools":[` + read + `],"cacheScope":"public"}`, `{"tools":[` + read + `],"cacheScope":"private"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, plain(c.result), func(m *config.MCP) {
				s := m.Servers["up"]
				s.Tools = []string{"read", "never", "poisoned", "said", "resources/*"}
				m.Servers["up"] = s
			})
			_, _, got := g.send(list)
			if want := `{"jsonrpc":"2.0","id":1,"result":` + c.want + `}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// A tool whose description is withheld is not called either, until a later list shows it clean.
func TestPoisonedToolsAreNotCalled(t *testing.T) {
	said := "F0RB1D"
	g := newRig(t, func(w http.ResponseWriter, r received) {
		plain(fmt.Sprintf(`{"content":[],"tools":[{"name":"read","description":%q}]}`, said))(w, r)
	})
	g.send(list)
	if _, _, got := g.send(call(2, "read", `{}`)); !strings.Contains(got, "description is withheld") {
		t.Error(got)
	}
	said = "clean"
	g.send(list)
	if _, _, got := g.send(call(3, "read", `{}`)); strings.Contains(got, "isError") {
		t.Error(got)
	}
}

// A list that cannot be scanned is not shown.
func TestListWithoutAScan(t *testing.T) {
	g := newRig(t, plain(`{"tools":[{"name":"read","description":"L4T3"}]}`))
	if _, _, got := g.send(list); strings.Contains(got, `"name"`) {
		t.Error(got)
	}
	g = newRig(t, plain(`{"tools":[{"name":"read"}]}`))
	g.bench.BreakStore(true)
	if _, _, got := g.send(list); !strings.Contains(got, `"error"`) {
		t.Error(got)
	}
}

// Redacted, a result still is what its tool promises, or it is withheld.
func TestOutputSchema(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"k":{"type":"string"}}}`, `"structuredContent":{"k":"[hidden]"}`},
		{`{"type":"object","properties":{"k":{"type":"string","pattern":"^S"}}}`, "does not fit the schema"},
		{`{"type":"object","properties":{"k":{"enum":["S3CR3T"]}}}`, "does not fit the schema"},
		{`{"$ref":"https://evil.example/schema"}`, "does not fit the schema"},
	} {
		g := newRig(t, func(w http.ResponseWriter, r received) {
			if strings.Contains(r.body, "tools/list") {
				plain(`{"tools":[{"name":"read","outputSchema":`+c.schema+`}]}`)(w, r)
				return
			}
			plain(`{"content":[],"structuredContent":{"k":"S3CR3T"}}`)(w, r)
		})
		g.send(list)
		if _, _, got := g.send(call(2, "read", `{}`)); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.schema, got)
		}
	}
}
