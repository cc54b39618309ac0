package rawmcp

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const tasksExtension = "io.modelcontextprotocol/tasks"

// task is a call whose result is fetched later. It is working when it begins, and completed when it is first asked for.
type task struct {
	id     string
	tool   string
	status string
	begun  string
}

// wantsTask says whether a call's result may be fetched later: the older era's client asks for it in each call, the
// newer era's client says that it could, and the server decides.
func (c *call) wantsTask() bool {
	if c.modern {
		_, could := c.p.Meta.Client.Extensions[tasksExtension]
		return could
	}
	return len(c.p.Task) > 0
}

func (c *call) beginTask(tool string) string {
	t := &task{id: fmt.Sprintf("raw-task-%d", c.s.nextID()), tool: tool, status: "working",
		begun: time.Now().UTC().Format(time.RFC3339)}
	c.s.mu.Lock()
	c.s.tasks[t.id] = t
	c.s.mu.Unlock()
	if c.modern {
		return `{"resultType":"task",` + t.state(true, "") + `}`
	}
	return `{"task":{` + t.state(false, "") + `}}`
}

// state are the members that tell how a task is doing.
func (t *task) state(modern bool, message string) string {
	ttl := `"ttl":60000,"pollInterval":10`
	if modern {
		ttl = `"ttlMs":60000,"pollIntervalMs":10`
	}
	if message != "" {
		message = fmt.Sprintf(`"statusMessage":%q,`, message)
	}
	return fmt.Sprintf(`"taskId":%q,"status":%q,%s"createdAt":%q,"lastUpdatedAt":%q,%s,"x-vendor":12345678901234567890`, t.id,
		t.status, message, t.begun, t.begun, ttl)
}

// outcome is the result of a task's tool. The secret task gives its secret away here, where no tools/call is seen.
func (t *task) outcome(c *call) string {
	if t.tool == "task-secret" {
		return fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, c.s.opt.Secret)
	}
	return `"content":[{"type":"text","text":"done later"}],"structuredContent":{"n":12345678901234567890,"f":0.10}`
}

func (c *call) tasks() (string, error) {
	if c.modern == (c.method == "tasks/result" || c.method == "tasks/list") || !c.modern && c.method == "tasks/update" {
		if c.modern || c.method == "tasks/update" {
			return "", &rpcError{code: codeMethod, message: "unknown method " + c.method}
		}
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.method == "tasks/list" {
		var all []string
		for _, t := range c.s.tasks {
			all = append(all, `{`+t.state(false, "")+`}`)
		}
		slices.Sort(all)
		return `{"tasks":[` + strings.Join(all, ",") + `]}`, nil
	}
	t := c.s.tasks[c.p.TaskID]
	if t == nil {
		return "", &rpcError{code: codeParams, message: "unknown task"}
	}
	switch c.method {
	case "tasks/cancel":
		if t.status != "completed" {
			t.status = "cancelled"
		}
		if c.modern {
			return `{}`, nil
		}
	case "tasks/update":
		return `{}`, nil
	case "tasks/result":
		t.status = "completed"
		return fmt.Sprintf(`{%s,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}`, t.outcome(c), t.id), nil
	}
	message := ""
	if c.method == "tasks/get" && t.status == "working" {
		t.status = "completed"
		if t.tool == "task-secret" {
			message = "ready: " + c.s.opt.Secret // a status is text, too
		}
	}
	state := t.state(c.modern, message)
	if c.modern && t.status == "completed" {
		state += `,"result":{"resultType":"complete",` + t.outcome(c) + `}`
	}
	return `{` + state + `}`, nil
}
