package host

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
)

// standingBack is how many threads of a process have asked for a long slice.
func standingBack(t *testing.T, pid int) (long int) {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		if attr, err := unix.SchedGetAttr(id, 0); err == nil && attr.Runtime == uint64(longSlice) {
			long++
		}
	}
	return long
}

// What others do while a long call has its turn is lost to it, and it rests for that.
func TestLostTimeIsRest(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m := machine
	defer func() { machine = m }()
	machine = newTurns(1)
	machine.called("other")
	c := &call{Context: context.Background(), key: "slow", deadline: time.Now().Add(time.Hour)}
	if err := c.takeTurn(); err != nil {
		t.Fatal(err)
	}
	waitFor(func() bool { return time.Since(c.turn) >= 2*lostTime })
	if c.lost() != 0 {
		t.Error("a short call counts what it loses")
	}
	c.standBack()
	defer c.leave()
	waitFor(func() bool { return c.lost() >= lostTime })
	if !c.yield() {
		t.Error("it keeps its turn")
	}
	c.giveTurn()
	if machine.rested.IsZero() || c.lost() != 0 {
		t.Errorf("it does not rest: %v", c.lost())
	}
}

// The thread of a long call stands back, in this process and in a sealed worker, and is an ordinary one again when the
// call has ended.
func TestLongCallsStandBack(t *testing.T) {
	runtime.LockOSThread()
	setSlice(longSlice)
	attr, err := unix.SchedGetAttr(0, 0)
	setSlice(0)
	runtime.UnlockOSThread()
	if err != nil || attr.Runtime != uint64(longSlice) {
		t.Skipf("this kernel gives threads no slices of their own: %v %+v", err, attr)
	}
	code := wasmgen.Armed(wasmgen.Cat(wasmgen.Forever(), wasmgen.FindBody())).Encode()
	spec := Spec{Name: "m", Code: code, Timeout: MaxTimeout, Fuel: MaxFuel}
	h := newHost(t, Options{})
	inside, err := h.Load(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	worker, err := h.spawn(context.Background(), spec,
		workerTuning{args: []string{WorkerArg}, started: func(p *supervise.Process) { pid = p.Pid() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Close(context.Background()) })
	for name, c := range map[string]struct {
		s   chain.Scanner
		pid int
	}{"inproc": {inside, os.Getpid()}, "worker": {worker, pid}} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = c.s.Scan(ctx, &chain.Input{Text: wasmgen.Trigger + "some text that is long", KeyID: "slow"})
			}()
			waitFor(func() bool { return standingBack(t, c.pid) == 1 })
			stop()
			<-ended
			waitFor(func() bool { return standingBack(t, c.pid) == 0 })
		})
	}
}
