package host

import (
	"context"
	"errors"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/exact"
)

// Check asks the module about one call. Errors are *CallError. Beside one the verdict has nothing but the effect that
// the module wanted, if that is sdk.Deny or sdk.Defer: what it wanted to stop is not let through because it failed.
func (m *Module) Check(ctx context.Context, what *chain.Call) (sdk.Verdict, error) {
	if !m.checked.Check {
		m.calls.Add(1)
		m.errs.Add(1)
		return sdk.Verdict{}, m.fault("", ErrNoExport, abi.ExportCheck, nil)
	}
	doc := callDocument(what)
	var v sdk.Verdict
	err := m.use(ctx, checking, whose{key: what.KeyID}, func(c *call) (uint32, int, error) {
		ptr, err := c.in.room(c, len(doc))
		if err != nil {
			return 0, 0, err
		}
		c.in.mem.Write(ptr, doc)
		err = c.in.status(c, abi.ExportCheck, c.in.check, uint32(len(doc)), abi.FlagFirst|abi.FlagFinal|abi.FlagUTF8)
		if err == nil && !c.decided {
			err = m.fault(abi.ExportCheck, ErrNoDecision, "a check decides exactly once", nil)
		}
		if err == nil {
			v = c.verdict
		}
		return ptr, len(doc), c.wants(err)
	})
	return m.spec.verdict(v, err)
}

// verdict is what came of a check, without what the module was handed in secret.
func (s *Spec) verdict(v sdk.Verdict, err error) (sdk.Verdict, error) {
	if err == nil {
		if v, err = s.Hide.Verdict(v, maxReason); err != nil {
			err = &CallError{Module: s.Name, Export: abi.ExportCheck, Fault: ErrDecision, Err: err}
		}
		return v, s.Hide.Error(err)
	}
	var failed *CallError
	if errors.As(err, &failed) {
		v.Effect = failed.Wanted
	}
	return v, s.Hide.Error(err)
}

// wants notes in the error of a check what the module wanted to decide.
func (c *call) wants(err error) error {
	var failed *CallError
	if errors.As(err, &failed) {
		failed.Wanted = c.wanted
	}
	return err
}

// callDocument writes the call as the guest reads it. Absent args and context are left out.
func callDocument(c *chain.Call) []byte {
	b := make([]byte, 0, 512)
	for _, f := range [...]struct{ name, value string }{
		{`{"agent_id":`, c.AgentID}, {`,"session_id":`, c.SessionID}, {`,"tool_id":`, c.ToolID},
		{`,"operation":`, c.Operation}, {`,"call_id":`, c.CallID},
	} {
		b = exact.AppendString(append(b, f.name...), f.value)
	}
	if c.Args.Exists() {
		b = c.Args.AppendCanonical(append(b, `,"args":`...))
	}
	if c.Context.Exists() {
		b = c.Context.AppendCanonical(append(b, `,"context":`...))
	}
	return append(b, '}')
}
