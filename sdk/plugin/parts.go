package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// Limits on what Info may say.
const (
	maxName        = 64 // bytes of names, codes and kinds
	maxSchema      = 256 << 10
	maxExample     = 64 << 10
	maxSecrets     = 64
	maxKinds       = 256
	maxCacheFields = 32
	maxInFlight    = 4096
)

// parts are the plugins of one process, at most one of a kind, and what Info says of them together.
type parts struct {
	check   func(ctx context.Context, c *Call) (sdk.Verdict, error)
	scan    func(ctx context.Context, t *Text) ([]sdk.Finding, error)
	consume func(ctx context.Context, b *Batch) error

	lives []life
	info  Info            // of all together
	found map[string]bool // the kinds of findings
}

// life is what all kinds have in common.
type life struct {
	name      string
	kind      pluginv1.Kind
	info      Info
	validate  func(ctx context.Context, s Settings) error
	configure func(ctx context.Context, s Settings) error
	health    func() error
	close     func(ctx context.Context) error
}

func (p *parts) add(l life, function string, missing bool) error {
	for _, other := range p.lives {
		if other.kind == l.kind {
			return fmt.Errorf("two plugins of kind %s: one program is at most one of each kind", l.name)
		}
	}
	if missing {
		return fmt.Errorf("the %s has no %s function", l.name, function)
	}
	p.lives = append(p.lives, l)
	return nil
}

// gather checks what an author gave to Serve. The error is for the author.
func gather(first Plugin, more []Plugin) (*parts, error) {
	p := &parts{found: map[string]bool{}}
	for _, one := range append([]Plugin{first}, more...) {
		if one == nil {
			return nil, errors.New("a plugin is nil")
		}
		if err := one.bind(p); err != nil {
			return nil, err
		}
	}
	for i, l := range p.lives {
		if i == 0 {
			p.info = l.info
		} else if err := p.join(l); err != nil {
			return nil, err
		}
	}
	for _, f := range p.info.Findings {
		p.found[f.Kind] = true
	}
	return p, errors.Join(p.faults()...)
}

// join adds what a further plugin's Info has of its own. What is one for the program must be left out there or be the
// same.
func (p *parts) join(l life) error {
	for _, same := range []struct{ name, mine, theirs string }{
		{"Name", p.info.Name, l.info.Name}, {"Version", p.info.Version, l.info.Version},
		{"Description", p.info.Description, l.info.Description}, {"ConfigSchema", p.info.ConfigSchema, l.info.ConfigSchema},
		{"ExampleConfig", p.info.ExampleConfig, l.info.ExampleConfig},
	} {
		if same.theirs != "" && same.theirs != same.mine {
			return fmt.Errorf("the %s's Info.%s is not the first plugin's: leave it out, one program has one", l.name, same.name)
		}
	}
	for _, s := range l.info.Secrets {
		same := false
		for _, mine := range p.info.Secrets {
			same = same || s == mine
		}
		if !same {
			p.info.Secrets = append(p.info.Secrets[:len(p.info.Secrets):len(p.info.Secrets)], s)
		}
	}
	if len(l.info.CacheKeyFields) > 0 {
		p.info.CacheKeyFields = l.info.CacheKeyFields
	}
	if p.info.MaxInFlight == 0 || l.info.MaxInFlight > 0 && l.info.MaxInFlight < p.info.MaxInFlight {
		p.info.MaxInFlight = l.info.MaxInFlight
	}
	if len(l.info.Findings) > 0 {
		p.info.Findings = l.info.Findings
	}
	return nil
}

// faults are all that is wrong with Info.
func (p *parts) faults() (out []error) {
	fault := func(field, format string, args ...any) {
		out = append(out, fmt.Errorf("Info."+field+": "+format, args...))
	}
	i := p.info
	if !isName(i.Name) {
		fault("Name", "%q, must be 1 to 64 of a-z 0-9 . _ -", i.Name)
	}
	if len(i.Version) == 0 || len(i.Version) > maxName || !printable(i.Version) {
		fault("Version", "%q, must be 1 to 64 printable characters", i.Version)
	}
	if len(i.Description) > maxLine || !printable(i.Description) {
		fault("Description", "must be one line of at most %d bytes", maxLine)
	}
	if err := jsonObject(i.ConfigSchema); i.ConfigSchema != "" && (err != nil || len(i.ConfigSchema) > maxSchema) {
		fault("ConfigSchema", "must be a JSON object of at most %d bytes: %v", maxSchema, err)
	}
	if err := jsonObject(i.ExampleConfig); i.ExampleConfig != "" && (err != nil || len(i.ExampleConfig) > maxExample) {
		fault("ExampleConfig", "must be a JSON object of at most %d bytes: %v", maxExample, err)
	}
	if i.MaxInFlight < 0 || i.MaxInFlight > maxInFlight {
		fault("MaxInFlight", "%d, must be 0 to %d", i.MaxInFlight, maxInFlight)
	}
	if p.scan != nil && len(i.Findings) == 0 {
		fault("Findings", "a scanner says at least one kind that it may report")
	}
	return append(out, i.listFaults()...)
}

// listFaults are those of the lists.
func (i Info) listFaults() (out []error) {
	fault := func(field, format string, args ...any) {
		out = append(out, fmt.Errorf("Info."+field+": "+format, args...))
	}
	if len(i.Secrets) > maxSecrets || len(i.Findings) > maxKinds || len(i.CacheKeyFields) > maxCacheFields {
		fault("Secrets, Findings, CacheKeyFields", "%d, %d and %d entries, the limits are %d, %d and %d", len(i.Secrets),
			len(i.Findings), len(i.CacheKeyFields), maxSecrets, maxKinds, maxCacheFields)
	}
	seen := map[string]bool{}
	twice := func(field, name string) {
		if seen[field+" "+name] {
			fault(field, "%q is there twice", name)
		}
		seen[field+" "+name] = true
	}
	for _, s := range i.Secrets {
		twice("Secrets", s.Name)
		if !isSecret(s.Name) || len(s.Description) > maxLine || !printable(s.Description) {
			fault("Secrets", "%q: a name is 1 to 64 of a-z A-Z 0-9 . _ -, a description one line of at most %d bytes", s.Name,
				maxLine)
		}
	}
	for _, f := range i.Findings {
		twice("Findings", f.Kind)
		if !isCode(f.Kind) || len(f.Description) > maxLine || !printable(f.Description) {
			fault("Findings", "%q: a kind is 1 to 64 of A-Z 0-9 _, a description one line of at most %d bytes", f.Kind, maxLine)
		}
	}
	for _, f := range i.CacheKeyFields {
		twice("CacheKeyFields", f)
		if !isField(f) {
			fault("CacheKeyFields", "%q, must be one of %s, or args.NAME or context.NAME", f, strings.Join(callFields, " "))
		}
	}
	return out
}

// callFields are the fields of a call that a decision can be said to depend on.
var callFields = []string{"key_id", "key_name", "agent_id", "session_id", "tool_id", "operation", "args", "context"}

func isField(f string) bool {
	for _, known := range callFields {
		if f == known {
			return true
		}
	}
	for _, prefix := range []string{"args.", "context."} {
		if name, ok := strings.CutPrefix(f, prefix); ok {
			return name != "" && len(f) <= 256 && printable(f)
		}
	}
	return false
}

func isName(s string) bool {
	return of(s, func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
	})
}

func isSecret(s string) bool { return isName(strings.ToLower(s)) && len(s) == len(strings.ToLower(s)) }

func isCode(s string) bool {
	return of(s, func(c byte) bool { return c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' })
}

// of tells whether s is 1 to maxName bytes that all are in the set.
func of(s string, in func(byte) bool) bool {
	for i := range len(s) {
		if !in(s[i]) {
			return false
		}
	}
	return len(s) > 0 && len(s) <= maxName
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

func jsonObject(s string) error {
	var d exact.Doc
	if err := d.Parse(s, exact.DefaultLimits); err != nil {
		return err
	}
	if k := d.Root().Kind(); k != exact.Object {
		return errors.New("it is " + k.String())
	}
	return nil
}
