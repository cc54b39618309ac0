package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/yett-dev/yett/cmd/internal/agents/model"
)

// Run says what a client is started for.
type Run struct {
	Prompt string
	Model  *model.Server
	MCP    map[string][]string // MCP servers on stdio: name to command
	Args   []string            // more arguments, before the prompt
	Env    []string            // more variables
}

// Output is what a run left.
type Output struct {
	Stdout, Stderr string
	Code           int
	Took           time.Duration
}

// Configure writes a client's own configuration, which points it at the model and names the MCP servers. A test that
// adds to that configuration calls it first; else Run does.
func (p *Place) Configure(ctx context.Context, c Client, r Run) error {
	for name, text := range c.files(r) {
		p.Write(name, text)
	}
	if c.setup != nil {
		out, err := p.Exec(ctx, append(c.env(p, r), r.Env...), append(c.Argv(), c.setup(r)...)...)
		if err != nil {
			return fmt.Errorf("set up %s: %w", c.Name, err)
		}
		if out.Code != 0 {
			return fmt.Errorf("set up %s: exit %d\n%s\n%s", c.Name, out.Code, out.Stdout, out.Stderr)
		}
	}
	p.configured[c.Name] = true
	return nil
}

// Run runs a client to its end, or to the context's.
func (p *Place) Run(ctx context.Context, c Client, r Run) (Output, error) {
	if !p.configured[c.Name] {
		if err := p.Configure(ctx, c, r); err != nil {
			return Output{}, err
		}
	}
	return p.Exec(ctx, append(c.env(p, r), r.Env...), append(c.Argv(), c.args(p, r)...)...)
}

// Argv is how the client's program is started, before its arguments.
func (c Client) Argv() []string {
	program := filepath.Join(installed, "node_modules", c.program)
	if strings.HasSuffix(program, ".js") {
		return []string{"node", program}
	}
	return []string{program}
}

// Exec runs any program as the run's user, in the project, with the run's environment and env. What it leaves behind
// runs on until the test ends.
func (p *Place) Exec(ctx context.Context, env []string, argv ...string) (Output, error) {
	if err := outside(); err != nil {
		return Output{}, err
	}
	out, err := os.CreateTemp("", "stdout")
	if err != nil {
		return Output{}, err
	}
	defer out.Close()
	errs, err := os.CreateTemp("", "stderr")
	if err != nil {
		return Output{}, err
	}
	defer errs.Close()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Work, out, errs // files: nobody who inherits them delays the end
	cmd.Env = append(p.env(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true,
		Credential: &syscall.Credential{Uid: uint32(p.User), Gid: uint32(p.User)}}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	begin := time.Now()
	ran := cmd.Run()
	got := Output{Took: time.Since(begin)}
	for file, text := range map[string]*string{out.Name(): &got.Stdout, errs.Name(): &got.Stderr} {
		raw, err := os.ReadFile(file)
		if err := errors.Join(err, os.Remove(file)); err != nil {
			return got, err
		}
		*text = string(raw)
	}
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return got, fmt.Errorf("%s was killed after %s: %w\nstdout: %.4000s\nstderr: %.4000s", argv[0], got.Took,
			ctx.Err(), got.Stdout, got.Stderr)
	case errors.As(ran, &exit):
		got.Code = exit.ExitCode()
	case ran != nil:
		return got, fmt.Errorf("start %s: %w", argv[0], ran)
	}
	return got, nil
}

// env is the whole environment of a run, before what its client needs. Nothing of the machine's own goes in, but PATH.
func (p *Place) env() []string {
	return []string{"HOME=" + p.Home, "USER=" + p.name, "LOGNAME=" + p.name, "SHELL=/bin/bash", "LANG=C.UTF-8",
		"TERM=dumb", "TMPDIR=" + filepath.Join(p.Home, "tmp"), "PATH=" + os.Getenv("PATH"), "CI=1",
		"XDG_CONFIG_HOME=" + filepath.Join(p.Home, ".config"), "XDG_DATA_HOME=" + filepath.Join(p.Home, ".local/share"),
		"XDG_STATE_HOME=" + filepath.Join(p.Home, ".local/state"), "XDG_CACHE_HOME=" + filepath.Join(p.Home, ".cache")}
}

// stopAll kills every process of the run's user, and those that they start meanwhile.
func (p *Place) stopAll() error {
	for range 100 {
		pids, err := p.processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
			_, _ = syscall.Wait4(pid, nil, 0, nil) // orphans are ours, for we are the first process; others are not
		}
	}
	return fmt.Errorf("processes of the user %d keep starting others", p.User)
}

// processes are those of the run's user that are not dead yet.
func (p *Place) processes() ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		mine := bytes.Contains(text, fmt.Appendf(nil, "\nUid:\t%d\t", p.User))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && mine && !bytes.Contains(text, []byte("\nState:\tZ")) {
			out = append(out, pid)
		}
	}
	return out, nil
}
