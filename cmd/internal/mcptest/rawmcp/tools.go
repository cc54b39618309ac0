package rawmcp

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// tool is one tool: what it says it is, and what it does.
type tool struct {
	name, about string
	schema      string // of its input, or ""
	output      string // schema of its output, or ""
	more        string // further members of the definition, with a comma in front
	task        bool   // its result may be fetched later
	stream      bool   // over HTTP, its answer is a stream of events
	result      string // fixed, or ""
	run         func(*call) (string, error)
}

// streams says whether a request is answered by events.
func (m *message) streams() bool {
	if m.Method == "subscriptions/listen" {
		return true
	}
	if m.Method == "tools/call" {
		if t := find(m.Params.Name); t != nil {
			return t.stream
		}
	}
	return false
}

func find(name string) *tool {
	for i := range tools {
		if tools[i].name == name {
			return &tools[i]
		}
	}
	return nil
}

// ToolNames are the tools that the server offers at its start.
func ToolNames() []string {
	var names []string
	for _, t := range tools {
		names = append(names, t.name)
	}
	return names
}

// Harmless are the tools that answer by themselves and ask the client for nothing: a gateway must carry what they do.
func Harmless() []string {
	var names []string
	for _, t := range tools {
		switch t.name {
		case "counter", "slow", "change", "elicit", "elicit-url", "url-needed", "sample", "roots":
			continue
		case hostile[0].name:
			return names
		}
		names = append(names, t.name)
	}
	return names
}

// FixedResults are the tools whose result is the same bytes in each call, each with these bytes as the older era has
// them.
func FixedResults() map[string]string {
	out := map[string]string{}
	for _, t := range tools {
		if t.result != "" {
			out[t.name] = t.result
		}
	}
	return out
}

func (c *call) tool() (string, error) {
	if c.p.Name == "extra" {
		return text("extra"), nil
	}
	t := find(c.p.Name)
	if t == nil {
		return "", &rpcError{code: codeParams, message: fmt.Sprintf("unknown tool %q", c.p.Name)}
	}
	if t.task && c.wantsTask() {
		return c.beginTask(t.name), nil
	}
	if t.result != "" {
		return t.result, nil
	}
	return t.run(c)
}

func text(s string) string { return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, s) }

// Size of a large result's text, and number of the events of a long answer.
const (
	LargeText = 4 << 20
	Events    = 10_000
)

// decomposed is an é of two runes. Written here, so that no editor composes it.
const decomposed = "e\u0301"

const anObject = `{"type":"object"}`

// tools are all tools, first those that a gateway must carry unharmed.
var tools = append([]tool{
	{name: "echo", about: "Gives the arguments back, byte for byte.", more: `,"x-vendor":{"n":12345678901234567890}`,
		run: func(c *call) (string, error) {
			args := string(c.p.Arguments)
			if args == "" {
				args = "{}"
			}
			return fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"structuredContent":%s}`, toJSON(args), args), nil
		}},
	{name: "numbers", about: "Numbers that doubles cannot hold.", output: anObject,
		schema: `{"type":"object","properties":{"n":{"type":"integer","maximum":12345678901234567890,"multipleOf":0.10}}}`,
		result: `{"content":[{"type":"text","text":"12345678901234567890"}],"structuredContent":{"big":12345678901234567890,` +
			`"money":0.10,"exp":1E+2,"zero":-0.0,"small":1e-400,"third":0.3333333333333333333333333333}}`},
	{name: "huge-number", about: "A number beyond doubles.", output: anObject,
		result: `{"content":[{"type":"text","text":"1e400"}],"structuredContent":{"n":1e400,"m":-1e400}}`},
	{name: "unicode", about: "Texts that look the same and are not.",
		result: `{ "content" : [{"type":"text","text":"\u00e9 e\u0301 \uD83D\uDE00 😀 \/ \u2028 \u0000 é ` + decomposed +
			`"}] ,` + "\t" + `"structuredContent":{"é":1,"` + decomposed + `":2,"e\u0301\u0301":3,"a":4,"\u0430":5}  }`},
	{name: "unknown-members", about: "Members that no specification names.", more: `,"annotations":{"x-hint":0.10,"readOnlyHint":true},"icons":[]`,
		result: `{"x-top":{"n":0.10},"content":[{"type":"text","text":"x","annotations":{"priority":0.10,"x-a":1e400},` +
			`"x-content":[12345678901234567890]}],"isError":false,"nothing":null}`},
	{name: "unknown-content", about: "Content of a type that no specification names.",
		result: `{"content":[{"type":"hologram","data":{"n":0.10},"text":"not a text"},{"type":"text","text":"x"}]}`},
	{name: "meta", about: "Large integers in _meta.",
		result: `{"_meta":{"vendor.example/id":12345678901234567890,"vendor.example/deep":{"n":[9007199254740993]}},` +
			`"content":[{"type":"text","text":"x","_meta":{"n":9007199254740993}}]}`},
	{name: "image", about: "An image and a sound.",
		result: `{"content":[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"},{"type":"audio","data":"UklGRg==",` +
			`"mimeType":"audio/wav"}]}`},
	{name: "blob", about: "Resources in the result, and a link to one.",
		result: `{"content":[{"type":"resource","resource":{"uri":"raw://blob","mimeType":"application/octet-stream",` +
			`"blob":"AAECAwQF"}},{"type":"resource","resource":{"uri":"raw://text","text":"inside"}},` +
			`{"type":"resource_link","uri":"raw://text","name":"text","description":"a link","size":12345678901234567890}]}`},
	{name: "structured", about: "Structured content with a schema.",
		output: `{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"number"}},"required":["name","n"]}`,
		result: `{"content":[{"type":"text","text":"{\"name\":\"Zoë\",\"n\":0.10}"}],"structuredContent":{"name":"Zoë","n":0.10}}`},
	{name: "fail", about: "Fails as a tool.", result: `{"content":[{"type":"text","text":"it failed"}],"isError":true}`},
	{name: "region", about: "Has a parameter that is a header, too.",
		schema: `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`,
		result: `{"content":[{"type":"text","text":"region"}]}`},
	{name: "rpc-error", about: "Fails as a request.", run: func(*call) (string, error) {
		return "", &rpcError{code: -32099, message: "no: \u00e9", data: `{"n":12345678901234567890,"f":0.10}`}
	}},
	{name: "large", about: "A text of 4 MiB.", run: func(*call) (string, error) {
		const line = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ. "
		return text(strings.Repeat(line, LargeText/len(line)+1)[:LargeText]), nil
	}},
	{name: "events", about: "10 000 events before the result.", stream: true, run: func(c *call) (string, error) {
		for n := range Events {
			if err := c.log(fmt.Sprintf(`{"n":%d,"f":0.10}`, n)); err != nil {
				return "", err
			}
		}
		return text("all"), nil
	}},
	{name: "forms", about: "Events in each form that the format allows.", stream: true, run: forms},
	{name: "progress", about: "Tells of its progress.", stream: true, run: func(c *call) (string, error) {
		for n := range 3 {
			if err := c.progress(n, "step"); err != nil {
				return "", err
			}
		}
		return text("progressed"), nil
	}},
	{name: "log", about: "Logs.", stream: true, run: func(c *call) (string, error) {
		if err := c.log(`{"text":"a line","n":12345678901234567890}`); err != nil {
			return "", err
		}
		return text("logged"), nil
	}},
	{name: "counter", about: "Counts the calls of a session.", run: func(c *call) (string, error) {
		c.sess.mu.Lock()
		defer c.sess.mu.Unlock()
		c.sess.count++
		return text(fmt.Sprint(c.sess.count)), nil
	}},
	{name: "slow", about: "Ends when it is cancelled.", stream: true, run: func(c *call) (string, error) {
		if err := c.progress(0, "begun"); err != nil {
			return "", err
		}
		<-c.ctx.Done()
		return "", c.ctx.Err()
	}},
	{name: "change", about: "Adds or removes the tool extra.", run: (*call).change},
	{name: "elicit", about: "Asks the user by a form.", stream: true, run: asks("elicitation/create", `{"mode":"form","message":"Which colour?",`+
		`"requestedSchema":{"type":"object","properties":{"colour":{"type":"string"}}}}`, false)},
	{name: "elicit-url", about: "Asks the user to open a page.", stream: true, run: asks("elicitation/create", `{"mode":"url",`+
		`"message":"Sign in.","elicitationId":"e-1","url":"http://127.0.0.1/sign-in"}`, false)},
	{name: "url-needed", about: "Fails until the user has opened a page.", run: func(*call) (string, error) {
		return "", &rpcError{code: codeURLNeeded, message: "Sign in first",
			data: `{"elicitations":[{"mode":"url","elicitationId":"e-2","url":"http://127.0.0.1/sign-in","message":"Sign in."}]}`}
	}},
	{name: "sample", about: "Asks the client's model.", stream: true, run: asks("sampling/createMessage", sampling, false)},
	{name: "roots", about: "Asks for the client's folders.", stream: true, run: asks("roots/list", `{}`, false)},
	{name: "task", about: "Its result can be fetched later.", task: true, result: `{"content":[{"type":"text","text":"done now"}]}`},
}, hostile...)

const sampling = `{"messages":[{"role":"user","content":{"type":"text","text":"Say hello."}}],"maxTokens":100}`

// asks is a tool that gives back what the client answered. It may ask of clients that have not said they can answer.
func asks(method, params string, secret bool) func(*call) (string, error) {
	return func(c *call) (string, error) {
		p := params
		if secret {
			p = strings.ReplaceAll(p, "SECRET", c.s.opt.Secret)
		}
		answer, err := c.need(method, p)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, toJSON("answered: "+answer)), nil
	}
}

// forms sends a stream of events with comments, names, numbers, several lines of data and each end of a line.
func forms(c *call) (string, error) {
	answer := string(c.answer(text("forms")))
	half := strings.Index(answer, `,"result"`) + 1
	note := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":0.10}}`
	return c.stream(": a comment\n\n", "retry: 1000\n\n", "data:"+note+"\n\n", "\n",
		"id: form-2\r\nevent: message\r\ndata: "+note+"\r\n\r\n",
		"unknown: field\ndata: "+note+"\n\n",
		"id: form-3\ndata: "+answer[:half]+"\ndata: "+answer[half:]+"\n\n")
}

// vendorEvent sends an answer under a name that clients pass over, and then the answer.
func vendorEvent(c *call) (string, error) {
	return c.stream("event: vendor\ndata: "+string(c.answer(text("passed over")))+"\n\n",
		"event: message\ndata: "+string(c.answer(text("read")))+"\n\n")
}

// stream writes parts of a stream of events as they are. On stdio there are none, and the answer is a plain one.
func (c *call) stream(parts ...string) (string, error) {
	h, ok := c.out.(*httpSink)
	if !ok {
		return text("no stream"), nil
	}
	h.begin(http.StatusOK)
	for _, part := range parts {
		if _, err := io.WriteString(h.w, part); err != nil {
			return "", err
		}
		if err := h.rc.Flush(); err != nil {
			return "", err
		}
	}
	return "", errAnswered
}
