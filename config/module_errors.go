package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/yett-dev/yett/config/strict"
	"github.com/yett-dev/yett/core/quote"
)

// maxMisfits is how many places are named at which settings do not fit a schema.
const maxMisfits = 5

// misfit says where settings do not fit a schema and what was expected there, in one line. Fields are written as in the
// configuration: config.to[0].url.
func misfit(err error) string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	var all []string
	seen := map[string]bool{}
	for _, leaf := range leaves(invalid) {
		// a schema's author is not trusted: an enum may have thousands of values
		line := settingOf(leaf) + ": " + quote.Short(expected(leaf.ErrorKind), maxQuotedReason)
		if seen[line] {
			continue
		}
		if seen[line] = true; len(all) < maxMisfits {
			all = append(all, line)
		}
	}
	if n := len(seen); n > maxMisfits {
		all = append(all, fmt.Sprintf("and %d more", n-maxMisfits))
	}
	return strings.Join(all, "; ")
}

// leaves are the places at which an instance really is wrong. Where a schema offers several forms and none fits, they
// are those of the form that comes nearest: the one in which the fault lies deepest, then the one with the fewest. That
// the others do not fit either says nothing to who meant this one.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	switch e.ErrorKind.(type) {
	case *kind.OneOf, *kind.AnyOf:
		var best []*jsonschema.ValidationError
		for _, form := range e.Causes {
			if these := leaves(form); best == nil || nearer(these, best) {
				best = these
			}
		}
		return best
	}
	var all []*jsonschema.ValidationError
	for _, c := range e.Causes {
		all = append(all, leaves(c)...)
	}
	return all
}

func nearer(a, b []*jsonschema.ValidationError) bool {
	if x, y := mayBeMeant(a), mayBeMeant(b); x != y {
		return x
	}
	if x, y := deepest(a), deepest(b); x != y {
		return x > y
	}
	return len(a) < len(b)
}

// mayBeMeant says whether a form may be the one that was meant: not if the value is of another type, or a fixed one,
// altogether.
func mayBeMeant(leaves []*jsonschema.ValidationError) bool {
	top := deepest(leaves)
	return !slices.ContainsFunc(leaves, func(e *jsonschema.ValidationError) bool {
		if len(e.InstanceLocation) < top {
			return false
		}
		switch e.ErrorKind.(type) {
		case *kind.Type, *kind.Const, *kind.Enum:
			return true
		}
		return false
	})
}

func deepest(leaves []*jsonschema.ValidationError) (depth int) {
	for _, e := range leaves {
		depth = max(depth, len(e.InstanceLocation))
	}
	return depth
}

// settingOf is the place as the configuration writes it.
func settingOf(e *jsonschema.ValidationError) string {
	var b strings.Builder
	b.WriteString("config")
	for _, part := range e.InstanceLocation {
		if _, err := strconv.Atoi(part); err == nil {
			b.WriteString("[" + part + "]")
		} else {
			b.WriteString("." + part)
		}
	}
	return b.String()
}

// expected says in plain words what was expected. What is not among them is rare, and said in the words of the library.
func expected(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Required:
		return "missing " + quotedList(k.Missing)
	case *kind.AdditionalProperties:
		return "unknown " + quotedList(k.Properties)
	case *kind.Type:
		return fmt.Sprintf("expected %s, got %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		return "must be one of " + valueList(k.Want)
	case *kind.Const:
		return "must be " + valueList([]any{k.Want})
	case *kind.Minimum:
		return fmt.Sprintf("must be at least %s, got %s", k.Want.RatString(), k.Got.RatString())
	case *kind.Maximum:
		return fmt.Sprintf("must be at most %s, got %s", k.Want.RatString(), k.Got.RatString())
	case *kind.ExclusiveMinimum:
		return fmt.Sprintf("must be above %s, got %s", k.Want.RatString(), k.Got.RatString())
	case *kind.ExclusiveMaximum:
		return fmt.Sprintf("must be below %s, got %s", k.Want.RatString(), k.Got.RatString())
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, got %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, got %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d entries, got %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d entries, got %d", k.Want, k.Got)
	case *kind.Pattern:
		return "must match " + k.Want
	case *kind.Format:
		if k.Want == "regex" && k.Err != nil {
			return k.Err.Error()
		}
		return "must be a " + k.Want
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.OneOf:
		return fmt.Sprintf("fits %d forms of which exactly one is allowed", len(k.Subschemas))
	case *kind.Not:
		return "has a form that is not allowed"
	}
	return fmt.Sprintf("does not fit %q of the schema", strings.Join(k.KeywordPath(), "/"))
}

func quotedList(names []string) string {
	var all []string
	for _, n := range names {
		all = append(all, strconv.Quote(n))
	}
	return strings.Join(all, ", ")
}

func valueList(values []any) string {
	var all []string
	for _, v := range values {
		all = append(all, fmt.Sprintf("%v", v))
	}
	return strings.Join(all, ", ")
}

// SettingsPlace finds where in the operator's files the settings of a plugin stand that text, an error about them,
// speaks of: the field in it that was written, or else the nearest thing around it. "" where they come from no file.
func (c *Config) SettingsPlace(plugin, text string) string {
	key, field := strict.Join("plugins", plugin), ""
	for rest := text; ; {
		i := strings.Index(rest, "config")
		if i < 0 {
			break
		}
		rest = rest[i:]
		word := rest
		if end := strings.IndexAny(word, ": ;,\n"); end >= 0 {
			word = word[:end]
		}
		if (word == "config" || strings.HasPrefix(word, "config.") || strings.HasPrefix(word, "config[")) &&
			len(word) > len(field) {
			field = word
		}
		rest = rest[len("config"):]
	}
	if field != "" {
		key = strict.Join(key, field)
	}
	pos := c.origins.At(key)
	if pos.File == "" {
		return ""
	}
	return pos.String()
}
