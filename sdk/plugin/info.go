package plugin

import (
	"encoding/json"
	"io"
)

// printInfo writes what Info answers, for people: the schema and the example as JSON, not as strings.
func printInfo(w io.Writer, p *parts) error {
	object := func(s string) json.RawMessage {
		if s == "" {
			return json.RawMessage("{}")
		}
		return json.RawMessage(s)
	}
	type secret struct {
		Name        string `json:"name"`
		Required    bool   `json:"required"`
		Description string `json:"description,omitempty"`
	}
	type finding struct {
		Kind        string `json:"kind"`
		Description string `json:"description,omitempty"`
	}
	i := p.info
	out := struct {
		Name           string          `json:"name"`
		Version        string          `json:"version"`
		Description    string          `json:"description,omitempty"`
		Kinds          []string        `json:"kinds"`
		APIVersions    []int           `json:"api_versions"`
		ConfigSchema   json.RawMessage `json:"config_schema,omitempty"`
		ExampleConfig  json.RawMessage `json:"example_config"`
		Secrets        []secret        `json:"secrets,omitempty"`
		CacheKeyFields []string        `json:"cache_key_fields,omitempty"`
		MaxInFlight    int             `json:"max_in_flight,omitempty"`
		Findings       []finding       `json:"findings,omitempty"`
	}{
		Name: i.Name, Version: i.Version, Description: i.Description, APIVersions: []int{ProtocolVersion},
		ConfigSchema: json.RawMessage(i.ConfigSchema), ExampleConfig: object(i.ExampleConfig),
		CacheKeyFields: i.CacheKeyFields, MaxInFlight: i.MaxInFlight,
	}
	for _, l := range p.lives {
		out.Kinds = append(out.Kinds, l.name)
	}
	for _, s := range i.Secrets {
		out.Secrets = append(out.Secrets, secret(s))
	}
	for _, f := range i.Findings {
		out.Findings = append(out.Findings, finding(f))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}
