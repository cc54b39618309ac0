//go:build amd64 || arm64

package confine

import (
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in what the kernel shows to a filter.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

func errno(e unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}
}

var allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

func load(at uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: at, Size: 4} }

// head ends a program of another machine or interface: its numbers mean other calls.
func head() []bpf.Instruction {
	return []bpf.Instruction{
		load(atArch),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		load(atNumber),
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: otherNumbers, SkipFalse: 1},
		errno(unix.ENOSYS),
	}
}

// compile is the program of a clause: it returns when all conditions hold, and else goes on behind itself.
func compile(conds []cond, then bpf.Instruction) []bpf.Instruction {
	rest := []bpf.Instruction{then}
	for i := len(conds) - 1; i >= 0; i-- {
		rest = append(conds[i].compile(len(rest)), rest...)
	}
	return rest
}

// compile goes on to the next instruction when the condition holds, and else skips so many.
func (c cond) compile(skip int) []bpf.Instruction {
	at := uint32(atArgs + 8*c.arg) // the lower half: both machines are little-endian
	if c.high {
		at += 4
	}
	out := []bpf.Instruction{load(at)}
	if c.mask != 0 {
		out = append(out, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask})
	}
	for i, v := range c.is {
		left := len(c.is) - 1 - i
		j := bpf.JumpIf{Cond: bpf.JumpEqual, Val: v}
		switch {
		case c.not:
			j.SkipTrue = uint8(left + skip)
		case left > 0:
			j.SkipTrue = uint8(left)
		default:
			j.SkipFalse = uint8(skip)
		}
		out = append(out, j)
	}
	return out
}

// denying is the filter that refuses what the rules say. A system call may have several.
func denying(rules []rule) ([]bpf.Instruction, error) {
	program := head()
	last := map[uintptr]int{}
	for i, r := range rules {
		last[r.number] = i
	}
	for i, r := range rules {
		body := []bpf.Instruction{errno(r.errno)}
		if len(r.clauses) > 0 {
			body = nil
			for _, c := range r.clauses {
				body = append(body, compile(c, errno(r.errno))...)
			}
			end := bpf.Instruction(allow)
			if i < last[r.number] {
				end = load(atNumber) // the next rule looks at it again
			}
			body = append(body, end)
		}
		if len(body) > 255 {
			return nil, fmt.Errorf("rule of system call %d: %d instructions, at most 255", r.number, len(body))
		}
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(r.number), SkipFalse: uint8(len(body))})
		program = append(program, body...)
	}
	return append(program, allow), nil
}

// allowing is the filter that refuses all but the calls, and of those what the rules say.
func allowing(calls []uintptr, rules []rule) ([]bpf.Instruction, error) {
	// Of other calls no more is to be said, and a rule lets pass what it does not refuse.
	rules = slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return !slices.Contains(calls, r.number) })
	program, err := denying(rules)
	if err != nil {
		return nil, err
	}
	program = program[:len(program)-1]
	for _, n := range calls {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(n), SkipFalse: 1}, allow)
	}
	return append(program, errno(unix.EPERM)), nil
}

// assemble is the program as the kernel takes it.
func assemble(program []bpf.Instruction) ([]unix.SockFilter, error) {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, err
	}
	out := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return out, nil
}
