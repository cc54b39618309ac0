package prochost

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/yett-dev/yett/core/quote"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// What Info may hold.
const (
	maxSchema      = 256 << 10
	maxExample     = 64 << 10
	maxDescription = 1024
	maxKinds       = 16
	maxVersions    = 64
	maxDeclared    = 256 // kinds of findings
	maxKeyFields   = 32
	maxKeyField    = 256
)

var (
	pluginName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)
	secretName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)
)

// Meta is what a plugin says about itself. Callers must not change what it points to.
type Meta struct {
	Name, Version, Description  string
	Kinds                       []Kind // those that we know
	ConfigSchema, ExampleConfig string
	CheckStream                 bool
	CacheKeyFields              []string
	MaxInFlight                 int // 0: as the operator likes
	Secrets                     []Secret
	Findings                    []FindingKind
}

// Secret is one secret that a plugin takes.
type Secret struct {
	Name        string
	Required    bool
	Description string
}

// FindingKind is one kind of finding that a scanner may report.
type FindingKind struct{ Kind, Description string }

// described is a checked Info.
type described struct {
	Meta
	raw   []byte            // encoded, for comparison with that of the next process
	kinds map[string]string // of findings
	key   []keyField
}

const infoSays = "what Info says: "

// describe checks what Info said. Errors are refusals.
func describe(r *pluginv1.InfoResponse, s *Spec) (*described, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		return nil, err
	}
	d := &described{raw: raw, kinds: map[string]string{}}
	for _, take := range []func(*pluginv1.InfoResponse, *Spec) error{d.takeName, d.takeKinds, d.takeConfig, d.takeSecrets,
		d.takeFindings,
		d.takeCapabilities} {
		if err := take(r, s); err != nil {
			return nil, refusef(infoSays+"%w", err)
		}
	}
	return d, nil
}

func (d *described) takeName(r *pluginv1.InfoResponse, s *Spec) error {
	if !pluginName.MatchString(r.Name) {
		return fmt.Errorf("name %q: expected 1 to 64 of a-z 0-9 . _ -", quote.Short(r.Name, 80))
	}
	if r.Version == "" || !isLine(r.Version, 64) {
		return fmt.Errorf("version %q: expected 1 to 64 printable characters", quote.Short(r.Version, 80))
	}
	if !isLine(r.Description, maxDescription) {
		return fmt.Errorf("description: expected one printable line of at most %d bytes", maxDescription)
	}
	d.Name, d.Version, d.Description = r.Name, r.Version, r.Description
	return errors.Join(s.Hide.Name("name", r.Name), s.Hide.Name("version", r.Version))
}

func (d *described) takeKinds(r *pluginv1.InfoResponse, s *Spec) error {
	if len(r.Kinds) > maxKinds || len(r.ApiVersions) > maxVersions {
		return fmt.Errorf("%d kinds and %d api_versions, at most %d and %d are allowed", len(r.Kinds), len(r.ApiVersions),
			maxKinds, maxVersions)
	}
	for _, k := range []Kind{Authorizer, Scanner, Subscriber} {
		if slices.Contains(r.Kinds, k.wire()) {
			d.Kinds = append(d.Kinds, k)
		}
	}
	if !slices.Contains(d.Kinds, s.Kind) {
		return fmt.Errorf("kinds: it is no %s (%v)", s.Kind, d.Kinds)
	}
	if !slices.Contains(r.ApiVersions, pluginv1.ProtocolVersion) {
		return fmt.Errorf("api_versions: %v do not include %d, which is what we speak", r.ApiVersions,
			pluginv1.ProtocolVersion)
	}
	return nil
}

func (d *described) takeConfig(r *pluginv1.InfoResponse, s *Spec) error {
	if len(r.ConfigSchema) > maxSchema || len(r.ExampleConfig) > maxExample {
		return fmt.Errorf("config_schema of %d and example_config of %d bytes, at most %d and %d are allowed",
			len(r.ConfigSchema), len(r.ExampleConfig), maxSchema, maxExample)
	}
	if r.ConfigSchema != "" && !isObject(r.ConfigSchema) {
		return fmt.Errorf("config_schema is no JSON object")
	}
	if r.ExampleConfig != "" && !isObject(r.ExampleConfig) {
		return fmt.Errorf("example_config is no JSON object")
	}
	if r.ConfigSchema == "" && !emptyObject(s.Config) {
		return fmt.Errorf("it takes no config, and one is set")
	}
	d.ConfigSchema, d.ExampleConfig = r.ConfigSchema, r.ExampleConfig
	return nil
}

func (d *described) takeSecrets(r *pluginv1.InfoResponse, s *Spec) error {
	if len(r.Secrets) > maxSecrets {
		return fmt.Errorf("%d secrets, at most %d are allowed", len(r.Secrets), maxSecrets)
	}
	declared := map[string]bool{}
	for _, x := range r.Secrets {
		if !secretName.MatchString(x.GetName()) || declared[x.Name] || !isLine(x.Description, maxDescription) {
			return fmt.Errorf("secrets: %q is there twice, or its name or description is invalid", quote.Short(x.GetName(), 80))
		}
		declared[x.Name] = true
		if _, given := s.Secrets[x.Name]; x.Required && !given && s.Connect == "" {
			return fmt.Errorf("secrets: it needs %s, which is not set", x.Name)
		}
		d.Secrets = append(d.Secrets, Secret{Name: x.Name, Required: x.Required, Description: x.Description})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		if !declared[name] {
			return fmt.Errorf("secrets: it takes none called %s", name)
		}
	}
	return nil
}

func (d *described) takeFindings(r *pluginv1.InfoResponse, s *Spec) error {
	if len(r.Findings) > maxDeclared {
		return fmt.Errorf("%d kinds of findings, at most %d are allowed", len(r.Findings), maxDeclared)
	}
	for _, f := range r.Findings {
		if _, twice := d.kinds[f.GetKind()]; twice || !isCode(f.GetKind()) || !isLine(f.Description, maxDescription) {
			return fmt.Errorf("findings: kind %q is there twice, or is not 1 to 64 of A-Z 0-9 _, or its description is invalid",
				quote.Short(f.GetKind(), 80))
		}
		if err := s.Hide.Name("findings: a kind", f.Kind); err != nil {
			return err
		}
		d.kinds[f.Kind] = f.Kind
		d.Findings = append(d.Findings, FindingKind{Kind: f.Kind, Description: f.Description})
	}
	if s.Kind == Scanner && len(d.kinds) == 0 {
		return fmt.Errorf("findings: a scanner declares at least one kind")
	}
	return nil
}

func (d *described) takeCapabilities(r *pluginv1.InfoResponse, _ *Spec) error {
	c := r.GetCapabilities()
	if c.GetMaxInFlight() > maxInFlight {
		return fmt.Errorf("max_in_flight %d, at most %d are allowed", c.GetMaxInFlight(), maxInFlight)
	}
	if len(c.GetCacheKeyFields()) > maxKeyFields {
		return fmt.Errorf("%d cache_key_fields, at most %d are allowed", len(c.GetCacheKeyFields()), maxKeyFields)
	}
	for _, name := range c.GetCacheKeyFields() {
		field, ok := parseKeyField(name)
		if !ok {
			return fmt.Errorf("cache_key_fields: %q is no field of a call", quote.Short(name, 80))
		}
		d.key = append(d.key, field)
	}
	d.CheckStream, d.MaxInFlight = c.GetCheckStream(), int(c.GetMaxInFlight())
	d.CacheKeyFields = slices.Clone(c.GetCacheKeyFields())
	return nil
}

// isLine: printable, one line, at most so many bytes.
func isLine(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) &&
		strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

func isObject(s string) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal([]byte(s), &m) == nil && m != nil
}

func emptyObject(config []byte) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(config, &m) == nil && len(m) == 0
}
