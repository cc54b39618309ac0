package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/sdk/abi"
)

// Bounds on triggers that come from settings.
const (
	maxTriggersFrom   = 16 // lists of one module
	maxConfigTriggers = abi.MaxConfigTriggers
)

// triggerPath is a JSON Pointer without escapes: names that hold "/" or "~" cannot be named.
var triggerPath = regexp.MustCompile(`^(/[^/~]{1,64}){1,4}$`)

// checkTriggersFrom wants of each list that the schema of the settings has a list of strings there: what a module asks
// for and can never be given would be triggers that are never looked for.
func checkTriggersFrom(m *abi.Metadata) error {
	if len(m.TriggersFrom) > maxTriggersFrom {
		return fmt.Errorf("triggers_from: %d lists: at most %d are allowed", len(m.TriggersFrom), maxTriggersFrom)
	}
	seen := map[string]bool{}
	for i, from := range m.TriggersFrom {
		switch {
		case !triggerPath.MatchString(from.Path):
			return fmt.Errorf("triggers_from[%d].path %q: want 1 to 4 names of settings, each after a slash, such as /words", i,
				quote.Short(from.Path, 80))
		case seen[from.Path]:
			return fmt.Errorf("triggers_from[%d].path %q is there twice", i, from.Path)
		case !listOfStrings(m.ConfigSchema, from.Path):
			return fmt.Errorf("triggers_from[%d].path %q: config_schema has no list of strings there: want "+
				"\"type\":\"array\" with \"items\":{\"type\":\"string\"}, below properties, without $ref",
				i, from.Path)
		}
		seen[from.Path] = true
	}
	return nil
}

func listOfStrings(schema map[string]any, path string) bool {
	for _, name := range strings.Split(path, "/")[1:] {
		properties, _ := schema["properties"].(map[string]any)
		schema, _ = properties[name].(map[string]any)
	}
	items, _ := schema["items"].(map[string]any)
	return schema["type"] == "array" && items["type"] == "string"
}

// allTriggers are those that a module declares, and behind them the entries of the lists that it names, in the order of
// triggers_from and of each list. Every entry counts, twice if it is there twice, so that a module can count along.
func allTriggers(m *abi.Metadata, config json.RawMessage) ([]abi.Trigger, error) {
	if len(m.TriggersFrom) == 0 {
		return m.Triggers, nil
	}
	var settings any
	if len(config) > 0 {
		if err := json.Unmarshal(config, &settings); err != nil {
			return nil, &ConfigError{err}
		}
	}
	all := append([]abi.Trigger(nil), m.Triggers...)
	for _, from := range m.TriggersFrom {
		field := strings.ReplaceAll(from.Path[1:], "/", ".")
		list, err := listAt(settings, from.Path, field)
		if err != nil {
			return nil, &ConfigError{err}
		}
		if len(all)-len(m.Triggers)+len(list) > maxConfigTriggers {
			return nil, &ConfigError{fmt.Errorf("%s: %d entries: at most %d become triggers, all lists of a module together",
				field, len(list), maxConfigTriggers)}
		}
		for i, entry := range list {
			text, err := entryOf(entry, m.Stream)
			if err != nil {
				return nil, &ConfigError{fmt.Errorf("%s[%d] %w", field, i, err)}
			}
			all = append(all, abi.Trigger{Literal: text, Fold: from.Fold})
		}
	}
	return all, nil
}

// entryOf is one entry of a list as a trigger's literal.
func entryOf(entry any, stream abi.Stream) (string, error) {
	text, is := entry.(string)
	switch {
	case !is:
		return "", errors.New("is no string")
	case text == "":
		return "", fmt.Errorf("is empty: it becomes a trigger, which has 1 to %d bytes", maxLiteral)
	case len(text) > maxLiteral:
		return "", fmt.Errorf("has %d bytes: it becomes a trigger, which has 1 to %d", len(text), maxLiteral)
	case stream.Mode == abi.StreamWindow && len(text) > stream.Lookbehind:
		return "", fmt.Errorf("has %d bytes: the module looks back %d in a stream, and would not find it there", len(text),
			stream.Lookbehind)
	}
	return text, nil
}

// listAt gives the list at a path, nil where the settings have nothing there.
func listAt(settings any, path, field string) ([]any, error) {
	for _, name := range strings.Split(path, "/")[1:] {
		object, is := settings.(map[string]any)
		if !is && settings != nil {
			return nil, fmt.Errorf("%s: want a list of strings", field)
		}
		settings = object[name]
	}
	list, is := settings.([]any)
	if !is && settings != nil {
		return nil, fmt.Errorf("%s: want a list of strings", field)
	}
	return list, nil
}

// CasedBeyondASCII gives the first trigger that is to be found in any case and has letters of which that is not so; ""
// if none has. Whoever wrote it may expect more than is done.
func CasedBeyondASCII(triggers []abi.Trigger) string {
	for _, t := range triggers {
		if t.Fold && strings.ContainsFunc(t.Literal, func(r rune) bool {
			return r > unicode.MaxASCII && (unicode.IsUpper(r) || unicode.IsLower(r))
		}) {
			return t.Literal
		}
	}
	return ""
}
