package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/yett-dev/yett/config/strict"
)

// Cases is a file of calls with what a list of rules must say of them.
type Cases struct {
	Path      string    `koanf:"-"` // the file, as it was opened
	RuleFiles []Path    `koanf:"rules" req:"true" one:"ok" most:"100" doc:"Rules files, read in order as one list."`
	Cases     []Case    `koanf:"cases" req:"true" doc:"The calls."`
	Rules     []RuleSet `koanf:"-"` // the files of RuleFiles, read
}

// Case is one call and what is wanted of it.
type Case struct {
	Name string `koanf:"name" req:"true" format:"text" maxlen:"256" doc:"Name of the case, unique in its file."`
	Call Call   `koanf:"call" doc:"The call."`
	Want Want   `koanf:"want" doc:"What the rules must say of it."`
	Pos  Pos    `koanf:"-"`
}

// Call is a call as rules see it.
type Call struct {
	AgentID   string   `koanf:"agent_id" req:"true" doc:"The agent."`
	ToolID    string   `koanf:"tool_id" req:"true" doc:"The tool."`
	Operation string   `koanf:"operation" doc:"The operation; joined to a tool without one."`
	SessionID string   `koanf:"session_id" doc:"The session."`
	Args      Document `koanf:"args" doc:"The arguments."`
	Context   Document `koanf:"context" doc:"What the caller says around it."`
	Key       CallKey  `koanf:"key" short:"name" doc:"The key that asks. A text alone is its name."`
	Now       string   `koanf:"now" format:"time" doc:"When. In a file of cases, the beginning of 2026 if not given."`
}

// CallKey is the key that asks.
type CallKey struct {
	ID   string `koanf:"id" doc:"The key's id."`
	Name string `koanf:"name" doc:"The key's name."`
}

// Want is what rules must say of a call. Rule and ReasonCode are not compared when empty.
type Want struct {
	Effect     string `koanf:"effect" req:"true" enum:"permit|deny|defer|PERMIT|DENY|DEFER" doc:"permit, deny or defer. A call that no rule matches is denied."`
	Rule       string `koanf:"rule" format:"id" doc:"The rule that speaks."`
	ReasonCode string `koanf:"reason_code" format:"code" doc:"The reason code, UNMATCHED_DENY when no rule matches."`
}

// ReadCases reads a file of cases (.yaml, .yml, .json; at most 64 MiB) and the rules it is about. The error is an
// *Error.
func ReadCases(path string) (*Cases, error) {
	l := newLoader(Sources{}, Default())
	c := &Cases{Path: path}
	data, err := l.Read(path, maxRulesFile)
	if err != nil {
		l.Report.Add(Pos{File: path}, "", "%s", err)
		return nil, l.Report.Err()
	}
	if strict.ReadText(l.Report, path, filepath.Ext(path), data, c); l.Report.Err() != nil {
		return nil, l.Report.Err()
	}
	names := map[string]Pos{}
	for i := range c.Cases {
		one, key := &c.Cases[i], fmt.Sprintf("cases[%d]", i)
		one.Pos = l.Report.Origins.At(key)
		if first, ok := names[one.Name]; ok {
			l.Report.Errorf(strict.Join(key, "name"), "a case named %s stands at %s already", strict.Literal(one.Name), first)
		}
		names[one.Name] = one.Pos
	}
	for i, file := range c.RuleFiles {
		c.Rules = append(c.Rules, l.readRules(string(file), fmt.Sprintf("rules[%d]", i)))
	}
	uniqueIDs(l.Report, c.Rules)
	return c, l.Report.Err()
}

// MaxCall is the longest text of a call that is read, in bytes.
const MaxCall = 64 << 20

// ReadCall reads one call from a file (.json, .yaml, .yml).
func ReadCall(path string) (*Call, error) {
	data, err := strict.ReadFile(path, MaxCall)
	if err != nil {
		return nil, err
	}
	return ParseCall(path, data)
}

// ParseCall reads one call from its text. Without a known ending of name, what is JSON is read as JSON and all else as
// YAML. The error is an *Error, with name for a file.
func ParseCall(name string, data []byte) (*Call, error) {
	r := strict.NewReport()
	ext := filepath.Ext(name)
	switch known := ext == ".json" || ext == ".yaml" || ext == ".yml"; {
	case !known && len(data) > MaxCall:
		r.Add(Pos{File: name}, "", "is larger than %s", Size(MaxCall))
		return nil, r.Err()
	case !known && bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) && json.Valid(data):
		ext = ".json"
	case !known:
		ext = ".yaml"
	}
	c := &Call{}
	if strict.ReadText(r, name, ext, data, c); r.Err() != nil {
		return nil, r.Err()
	}
	return c, nil
}
