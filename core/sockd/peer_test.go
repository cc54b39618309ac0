package sockd

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/confine"
)

// TestAPeerApprovesNothingOfItsOwn: whom the socket takes for a key is that key, also when it comes to approving.
// Neither the mapping nor a call asked for over another connection or with the key in hand is a way around.
func TestAPeerApprovesNothingOfItsOwn(t *testing.T) {
	r := newRig(t, mapped("agents"))
	mine := r.key("agents", "authorize", "approve", "grants")
	ask := `{"type":"govern","agent_id":"a","tool_id":"defer","args":{"n":%d}%s}`
	token := func(c *client, n int, rest string) string {
		t.Helper()
		_, after, ok := strings.Cut(c.ask(fmt.Sprintf(ask, n, rest)), `"defer_token":"`)
		if !ok {
			t.Fatal("not deferred")
		}
		token, _, _ := strings.Cut(after, `"`)
		return token
	}
	byPeer, byKey := token(r.dial(), 1, ""), token(r.dial(), 2, `,"api_key":"`+mine.Value+`"`)
	for _, c := range []struct{ token, rest string }{{byPeer, ""}, {byKey, ""},
		{byPeer, `,"api_key":"` + mine.Value + `"`}} {
		for _, line := range []string{`{"type":"approve_defer","defer_token":%q,"approved":true,"approver_id":"somebody else"%s}`,
			`{"type":"approve_defer","defer_token":%q,"approved":true,"grant":{"ttl_seconds":60}%s}`} {
			if got := r.dial().ask(fmt.Sprintf(line, c.token, c.rest)); !strings.Contains(got, `"code":"self_approval"`) {
				t.Errorf("%s: %s", line, got)
			}
		}
	}
	if got := r.dial().ask(`{"type":"standing_grant_add","agent_id":"a","tool_pattern":"**","ttl_seconds":60}`); !strings.Contains(got, `"code":"self_approval"`) {
		t.Error(got)
	}
}

// TestNobody: in a user namespace all users who have no number there share one, so nobody may speak as a key by it.
func TestNobody(t *testing.T) {
	known := nobody
	t.Cleanup(func() { nobody = known })
	own := uint32(os.Geteuid())
	nobody = func() (uint32, bool) { return own, true }
	r := newRig(t, mapped("agents"))
	r.key("agents", "authorize")
	if got := r.dial().ask(`{"type":"govern","agent_id":"a","tool_id":"permit","args":{}}`); !strings.Contains(got,
		`"code":"unauthenticated"`) {
		t.Errorf("nobody in particular: %s", got)
	}
}

// markedEnv is set in the child that TestPluginsStandForNoKey marks as a gateway's.
const markedEnv = "SOCKD_MARKED"

// TestPluginsStandForNoKey: what a gateway has started has its user's number, and is no agent of that user's: it speaks
// as no key, unless it has one in hand. A process that nobody has marked speaks as the key.
func TestPluginsStandForNoKey(t *testing.T) {
	const govern = `{"type":"govern","agent_id":"a","tool_id":"permit","args":{}%s}`
	if told := os.Getenv(markedEnv); told != "" {
		path, key, _ := strings.Cut(told, ",")
		if err := confine.Mark(); err != nil {
			t.Fatal(err)
		}
		nc, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := fmt.Fprintf(nc, govern+"\n"+govern+"\n", "", `,"api_key":"`+key+`"`); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(nc)
		for range 2 {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			fmt.Print("answer ", line)
		}
		return
	}
	r := newRig(t, mapped("agents"))
	key := r.key("agents", "authorize")
	if got := r.dial().ask(fmt.Sprintf(govern, "")); !strings.Contains(got, `"effect":"PERMIT"`) {
		t.Errorf("unmarked: %s", got)
	}
	c := exec.Command("/proc/self/exe", "-test.run=^TestPluginsStandForNoKey$")
	c.Env = append(os.Environ(), markedEnv+"="+r.set.Path+","+key.Value)
	out, err := c.Output()
	var answers []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "answer ") {
			answers = append(answers, line)
		}
	}
	if err != nil || len(answers) != 2 || !strings.Contains(answers[0], `"code":"unauthenticated"`) ||
		!strings.Contains(answers[1], `"effect":"PERMIT"`) {
		t.Errorf("%v:\n%s", err, out)
	}
}
