package config

import (
	"fmt"
	"net/url"
	"strings"
)

const (
	// maxSettingsWork bounds what holding settings against a schema may do, in steps: a step is a keyword that looks at
	// a value. Each costs up to half a microsecond, and an error of 200 bytes where it does not fit: a schema within its
	// bounds and 1 500 words took 2.4 GB. 10 000 words that are strings of some length take 50 000 steps.
	maxSettingsWork = 500_000
	// matchedPerStep is how many instructions of a regular expression, times bytes of the text, count as one step.
	matchedPerStep = 200
	// bytesPerStep is how many bytes of a text or a name are read, or quoted in an error, for one step.
	bytesPerStep = 64
)

// parts is how many members or elements a value has.
func parts(value any) int {
	switch value := value.(type) {
	case map[string]any:
		return len(value)
	case []any:
		return len(value)
	}
	return 0
}

// settingsWork counts the steps of one check before the library makes them, which cannot be stopped. It counts every
// branch: which ones the library leaves out is its business.
type settingsWork struct {
	schema *schemaWork
	steps  int
}

func (w *settingsWork) add(n int) error {
	if w.steps += n; w.steps > maxSettingsWork {
		return fmt.Errorf("the settings are too large for the config_schema: to check them takes more than %d steps; give "+
			"fewer or shorter values, or use a simpler schema", maxSettingsWork)
	}
	return nil
}

// walk counts what a subschema does with a value. The schema has passed checkSchemaWork, so its references end.
func (w *settingsWork) walk(schema, value any) error {
	keywords, _ := schema.(map[string]any)
	// the library makes a set of the members, or elements, for each subschema that it tries
	if err := w.add(1 + len(keywords) + parts(value)); err != nil {
		return err
	}
	for key, sub := range keywords {
		if err := w.keyword(key, sub, value); err != nil {
			return err
		}
	}
	return nil
}

func (w *settingsWork) keyword(key string, sub, value any) error {
	switch key {
	case "$ref":
		return w.walk(w.schema.target(sub), value)
	case "allOf", "anyOf", "oneOf":
		branches, _ := sub.([]any)
		for _, branch := range branches {
			if err := w.walk(branch, value); err != nil {
				return err
			}
		}
	case "not", "if", "then", "else", "contentSchema":
		return w.walk(sub, value)
	case "dependentSchemas", "dependencies":
		all, _ := sub.(map[string]any)
		for _, branch := range all {
			if err := w.walk(branch, value); err != nil {
				return err
			}
		}
	case "enum", "const":
		return w.compare(sub)
	case "required", "dependentRequired", "type":
		return w.compare(sub) // a name that is missing is named
	case "minLength", "maxLength", "format":
		text, _ := value.(string)
		return w.add(1 + len(text)/bytesPerStep)
	case "pattern":
		text, _ := value.(string)
		return w.match(sub, text)
	}
	switch value := value.(type) {
	case map[string]any:
		return w.members(key, sub, value)
	case []any:
		return w.elements(key, sub, value)
	}
	return nil
}

// members counts the keywords that look into an object.
func (w *settingsWork) members(key string, sub any, value map[string]any) error {
	for name, member := range value {
		var err error
		switch key {
		case "properties":
			all, _ := sub.(map[string]any)
			if of, ok := all[name]; ok {
				err = w.walk(of, member)
			}
		case "patternProperties":
			all, _ := sub.(map[string]any)
			for expression, of := range all {
				if err = w.match(expression, name); err == nil {
					err = w.walk(of, member)
				}
				if err != nil {
					return err
				}
			}
		case "additionalProperties", "unevaluatedProperties":
			if err = w.add(1 + len(name)/bytesPerStep); err == nil { // it may be named as one too many
				err = w.walk(sub, member)
			}
		case "propertyNames":
			err = w.walk(sub, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// elements counts the keywords that look into an array.
func (w *settingsWork) elements(key string, sub any, value []any) error {
	switch key {
	case "items", "additionalItems", "unevaluatedItems", "contains", "prefixItems":
	default:
		return nil
	}
	list, isList := sub.([]any)
	for i, element := range value {
		of := sub
		if isList {
			if i >= len(list) {
				break
			}
			of = list[i]
		}
		if err := w.walk(of, element); err != nil {
			return err
		}
	}
	return nil
}

// compare counts a step for each part of what a value is compared with.
func (w *settingsWork) compare(with any) error {
	if err := w.add(1); err != nil {
		return err
	}
	switch with := with.(type) {
	case []any:
		for _, part := range with {
			if err := w.compare(part); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, part := range with {
			if err := w.compare(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// match counts what a regular expression does with a text.
func (w *settingsWork) match(expression any, text string) error {
	e, _ := expression.(string)
	return w.add(1 + w.schema.expressions[e]*(len(text)+1)/matchedPerStep)
}

// target is what a reference leads to; nil if that is not there.
func (w *schemaWork) target(ref any) any {
	text, _ := ref.(string)
	path, err := url.PathUnescape(text)
	if err != nil {
		return nil
	}
	target := w.root
	for _, part := range strings.Split(path, "/")[1:] {
		members, _ := target.(map[string]any)
		target = members[pointerMeans.Replace(part)]
	}
	return target
}
