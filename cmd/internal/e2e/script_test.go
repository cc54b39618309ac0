package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/testkit"
)

// TestScripts runs the real binary as an operator would. Each file of testdata/script is one story; beside testscript's
// own commands they have ($FAKE is core/testkit/fakeplugin's program, $ROOT the repository):
//
//	exits CODE COMMAND ARG…          run a command that must end with that exit code
//	certs DIR                        make ca.pem, other-ca.pem, server.pem with server.key, and other.key in DIR
//	running DIR                      wait until a server answers on data directory DIR; sets $URL, and $MCP
//	filled FILE                      wait until a file has a whole line
//	until WANT COMMAND ARG…          run a command again and again until what it prints contains WANT
//	member VAR MEMBER[.MEMBER]       set $VAR to a member of the JSON object that the last command printed
//	receiver FILE                    serve a webhook that keeps a checkpoint in FILE and answers with it; sets $RECEIVER
//	witness KEYFILE                  serve a witness of the log whose key is in KEYFILE; sets $WITNESS and $WITNESS_KEY
//	mcpserver FILE                   serve an MCP server whose list of tools is in FILE; sets $UPSTREAM
//	post STATUS KEY PATH BODY WANT   POST to $URL; the status must be STATUS and the answer contain WANT
func TestScripts(t *testing.T) {
	yett := Binary(t)
	fake, _ := Fake(t)
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(yett)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("FAKE", fake)
			env.Setenv("ROOT", root)
			env.Setenv("XDG_CACHE_HOME", Cache())
			env.Setenv("TMPDIR", scriptTemp(env))
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "slow" {
				return false, fmt.Errorf("unknown condition %s: expected slow", name)
			}
			return testkit.Every(1, 2), nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"certs": scriptCerts, "exits": scriptExits, "running": scriptRunning, "filled": scriptFilled, "until": scriptPrints,
			"member": scriptMember, "post": scriptPost, "receiver": scriptReceiver,
			"witness": scriptWitness, "mcpserver": scriptMCPServer,
		},
	})
}

func scriptArgs(ts *testscript.TestScript, neg bool, args []string, least int, form string) {
	if neg || len(args) < least {
		ts.Fatalf("usage: %s", form)
	}
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "exits CODE COMMAND ARG…")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s does not run: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// scriptRunning asks the admin socket, which is there last.
func scriptRunning(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "running DIR")
	scriptUntil(ts, func(ctx context.Context) error {
		url, mcp, err := statusURLs(ctx, ts.MkAbs(args[0]))
		ts.Setenv("URL", url)
		ts.Setenv("MCP", mcp)
		return err
	})
}

func scriptFilled(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "filled FILE")
	scriptUntil(ts, func(context.Context) error {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && !strings.Contains(string(b), "\n") {
			err = fmt.Errorf("%s has no whole line", args[0])
		}
		return err
	})
}

func scriptPrints(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "until WANT COMMAND ARG…")
	scriptUntil(ts, func(context.Context) error {
		if err := ts.Exec(args[1], args[2:]...); err != nil {
			return err
		}
		if out := ts.ReadFile("stdout"); !strings.Contains(out, args[0]) {
			return fmt.Errorf("%s printed %q", args[1], out)
		}
		return nil
	})
}

// scriptUntil tries again until try succeeds, and fails the script when it does not within patience.
func scriptUntil(ts *testscript.TestScript, try func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("not within %v: %v", patience, err)
		}
	}
}

func statusURLs(ctx context.Context, data string) (url, mcp string, err error) {
	c, err := admin.Dial(data)
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	var status struct{ URL, MCP string }
	err = c.Do(ctx, "GET", "/status", nil, &status)
	return status.URL, status.MCP, err
}

func scriptMember(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "member VAR MEMBER[.MEMBER]")
	line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	var v any
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		ts.Fatalf("the last output is no JSON: %v", err)
	}
	for name := range strings.SplitSeq(args[1], ".") {
		object, _ := v.(map[string]any)
		if v = object[name]; v == nil {
			ts.Fatalf("no member %s", name)
		}
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

func scriptPost(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 5, "post STATUS KEY PATH BODY WANT")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", ts.Getenv("URL")+args[2], strings.NewReader(args[3]))
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+args[1])
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if strconv.Itoa(resp.StatusCode) != args[0] || !strings.Contains(string(body), args[4]) {
		ts.Fatalf("POST %s: status %d %s, want %s and %s", args[2], resp.StatusCode, body, args[0], args[4])
	}
}

// scriptTemp is a directory for temporary files with a short name: a plugin's socket lies in it, and the kernel takes
// some 100 bytes.
func scriptTemp(env *testscript.Env) string {
	dir, err := os.MkdirTemp(Dir, "t")
	if err != nil {
		env.T().Fatal(err)
	}
	return dir
}
