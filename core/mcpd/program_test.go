package mcpd_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/mcpd"
)

// asServer makes the test binary an MCP server on its standard input and output.
const asServer = "YETT_MCPD_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		(&fake{out: os.Stdout}).serve(os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// procs are the processes that a rig has started.
type procs struct {
	mu  sync.Mutex
	all []*program
}

// start runs the test binary as a server.
func (p *procs) start(_ string, set *config.MCPServer) (mcpd.Process, error) {
	if set.Command[0] == "fails" {
		return nil, errors.New("the test lets it not start")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{asServer + "=1"}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd.Stdout = w
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	one := &program{cmd: cmd, in: in, out: r, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ends is what the tests make it do
		close(one.done)
	}()
	p.mu.Lock()
	p.all = append(p.all, one)
	p.mu.Unlock()
	return one, nil
}

// running counts those that have not ended. It waits a while until there are want.
func (p *procs) running(want int) int {
	n := 0
	eventually(func() bool {
		n = 0
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, one := range p.all {
			select {
			case <-one.done:
			default:
				n++
			}
		}
		return n == want
	})
	return n
}

// eventually looks again and again until something is so, and gives up after a while.
func eventually(is func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-tick.C {
		if is() {
			return true
		}
	}
	return is()
}

// program is one process.
type program struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.Reader
	done chan struct{}
}

func (p *program) In() io.WriteCloser    { return p.in }
func (p *program) Out() io.Reader        { return p.out }
func (p *program) Done() <-chan struct{} { return p.done }
func (p *program) Kill()                 { _ = p.cmd.Process.Kill() } // in vain: it has ended

// fake is the server. What a tool does is in its name; all calls that are held get their answers from "release".
type fake struct {
	out     io.Writer
	calls   int
	held    []heard
	streams []json.RawMessage // ids of subscriptions
	log     []string          // notifications and answers, as they came
	asker   json.RawMessage   // the call that waits for the client's answer
}

// heard is one message with its bytes.
type heard struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
	line string
}

func (f *fake) serve(in io.Reader) {
	lines := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		m := heard{line: strings.TrimSuffix(line, "\n")}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			f.say("the server cannot read %s", line)
			return
		}
		f.take(&m)
	}
}

func (f *fake) say(format string, args ...any) { fmt.Fprintf(f.out, format+"\n", args...) }

// text answers with a text.
func (f *fake) text(id json.RawMessage, text string) {
	quoted, err := json.Marshal(text)
	if err != nil {
		quoted = []byte(`"?"`)
	}
	f.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, id, quoted)
}

func (f *fake) take(m *heard) {
	switch {
	case m.Method == "" && f.asker != nil:
		f.text(f.asker, m.line)
		f.asker = nil
	case m.ID == nil || m.Method == "":
		f.log = append(f.log, m.line)
	case m.Method == "tools/call":
		f.call(m)
	case m.Method == "resources/list":
		f.held = append(f.held, *m)
	case m.Method == "subscriptions/listen":
		f.streams = append(f.streams, m.ID)
		f.changed(m.ID)
	default:
		f.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}
}

func (f *fake) changed(id json.RawMessage) {
	f.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{`+
		`"io.modelcontextprotocol/subscriptionId":%s}}}`, id)
}

func (f *fake) call(m *heard) {
	f.calls++
	switch m.Params.Name {
	case "count":
		f.text(m.ID, fmt.Sprintf("call %d", f.calls))
	case "echo":
		f.text(m.ID, m.line)
	case "log":
		f.text(m.ID, strings.Join(f.log, "\n"))
	case "hold":
		f.held = append(f.held, *m)
	case "holds":
		f.text(m.ID, strconv.Itoa(len(f.held)))
	case "release", "in order": // the newest first, or the oldest
		if m.Params.Name == "in order" {
			slices.Reverse(f.held)
		}
		for _, h := range slices.Backward(f.held) {
			if h.Params.Meta.Token != nil {
				f.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":0.10}}`,
					h.Params.Meta.Token)
			}
			f.text(h.ID, "released "+h.line)
		}
		f.held = nil
		f.text(m.ID, "all")
	case "changes":
		for _, id := range f.streams {
			f.changed(id)
		}
		f.text(m.ID, "said")
	case "unrelated":
		f.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"by the way"}}`)
		f.text(m.ID, "said")
	case "ask":
		f.asker = m.ID
		f.say(`{"jsonrpc":"2.0","id":"srv-1","method":"elicitation/create","params":{"mode":"form","message":"who?"}}`)
	case "later": // asks once the call has its answer
		f.text(m.ID, "soon")
		f.say(`{"jsonrpc":"2.0","id":"srv-2","method":"ping"}`)
	case "garbage":
		f.say("Listening on stdio…\n{\"a\":\n[1,2]\n\"x\"\n{\"jsonrpc\":\"2.0\"}\n")
		f.say(`{"jsonrpc":"2.0","id":999,"result":{}}`)
		f.text(m.ID, "after it")
	case "long":
		f.text(m.ID, strings.Repeat("x", 1<<20))
	case "die":
		f.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"last words"}}`)
		os.Exit(3)
	case "cut":
		fmt.Fprintf(f.out, `{"jsonrpc":"2.0","id":%s,"resu`, m.ID)
		os.Exit(0)
	case "deaf":
		f.text(m.ID, "I read no more")
		select {}
	case "flood":
		for {
			f.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}`,
				strings.Repeat("y", 1000))
		}
	}
}

// quoted is a text as JSON.
func quoted(t *testing.T, s string) string {
	t.Helper()
	out, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
