package host

import (
	"errors"
	"fmt"
	"io"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/supervise"
)

// sealed is what a process keeps that runs a module: nothing. Its half here comes before the program begins,
// confine.Seal is the other.
func sealed(s *Spec) *confine.Policy {
	return &confine.Policy{Worker: true, Required: s.RequireConfine}
}

// Child is what a program that loads modules calls first thing in main, and a package whose tests do in TestMain: Admit
// and Spawn start this same program as the process in which a module is tried or runs. args are the program's arguments
// without its name. is says that this process is such a child and has done its work; then the program ends, as a
// failure if err is not nil. In the launcher of a child process, of whatever kind, it does not return.
func Child(args []string, in io.Reader, out io.Writer) (is bool, err error) {
	supervise.Launch()
	if len(args) != 1 {
		return false, nil
	}
	run := map[string]func(io.Reader, io.Writer) error{AdmitArg: RunAdmission, WorkerArg: RunWorker}[args[0]]
	if run == nil {
		return false, nil
	}
	if err = confine.Seal(); err == nil { // before a byte of the module is read
		err = run(in, out)
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s is started by the gateway, with a module on its standard input: %w", args[0], err)
	}
	return true, err
}
