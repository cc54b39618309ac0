package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/core/quote"
)

// Bounds of a schema as it is written.
const (
	maxSchemaDepth = 64      // nesting
	maxSchemaName  = 1 << 10 // bytes of a member's name
	maxSchemaPaths = 1 << 20 // bytes of the paths of all places together: the library keeps and compares each of them

	// maxSchemaLookups bounds references times places: the library copies its list of places for a reference to one that
	// it has not met yet.
	maxSchemaLookups = 3_000_000

	// A number beyond these is one that no setting has, and that costs the library seconds or ends it.
	maxSchemaNumber = 100 // characters
	maxExponent     = 400
)

// role is what the library takes a place of a schema for, or would if a reference led there.
type role int

const (
	oneSchema role = iota // a schema, or a list of schemas
	names                 // an object with a schema under each name
	data                  // values of which nothing is compiled
)

// of is the role of a member.
func (r role) of(key string) role {
	switch r {
	case data:
		return data
	case names:
		return oneSchema
	}
	switch key {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		return names
	case "default", "const", "enum", "examples", "dependentRequired":
		return data
	}
	return oneSchema
}

// size measures what is below a place, each thing once, and bounds it.
func (w *schemaWork) size(v any, r role, at *schemaPlace, depth, length int) error {
	if depth > maxSchemaDepth {
		return schemaError(at, "nests deeper than %d", maxSchemaDepth)
	}
	w.places++
	if w.paths += length; w.paths > maxSchemaPaths {
		return schemaError(nil, "the paths of all its places have more than %d bytes together: shorten its names",
			maxSchemaPaths)
	}
	switch v := v.(type) {
	case json.Number:
		if err := checkNumber(v); err != nil {
			return schemaError(at, "%v", err)
		}
	case []any:
		for i, sub := range v {
			key := strconv.Itoa(i)
			if err := w.size(sub, r, at.below(key), depth+1, length+1+len(key)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if len(key) > maxSchemaName {
				return schemaError(at.below(quote.Short(key, 80)), "the name has %d bytes: at most %d are allowed", len(key),
					maxSchemaName)
			}
			if r == oneSchema {
				if err := w.keyword(key, v[key], at.below(key)); err != nil {
					return err
				}
			}
			if err := w.size(v[key], r.of(key), at.below(key), depth+1, length+1+len(key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// drafts are the versions of JSON Schema that are taken. In older ones "id" changes what a reference leads to.
var drafts = []string{"json-schema.org/schema", "json-schema.org/draft/2020-12/schema",
	"json-schema.org/draft/2019-09/schema", "json-schema.org/draft-07/schema", "json-schema.org/draft-06/schema"}

// keyword bounds what one keyword of a schema has compiled or read.
func (w *schemaWork) keyword(key string, v any, at *schemaPlace) error {
	switch v := v.(type) {
	case string:
		switch key {
		case "pattern":
			return w.expression(v, at)
		case "$schema":
			url := strings.TrimSuffix(v, "#")
			url = strings.TrimPrefix(strings.TrimPrefix(url, "http://"), "https://")
			if !slices.Contains(drafts, url) {
				return schemaError(at, "unknown version %s: use https://json-schema.org/draft/2020-12/schema",
					quote.Literal(v, 80))
			}
		}
	case map[string]any:
		if key == "patternProperties" {
			for _, text := range slices.Sorted(maps.Keys(v)) {
				if err := w.expression(text, at); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// expression counts a regular expression, each time that it is compiled.
func (w *schemaWork) expression(text string, at *schemaPlace) error {
	size, known := w.expressions[text]
	if !known {
		var err error
		if size, err = expressionSize(text); err != nil {
			return schemaError(at, "%v", err)
		}
		w.expressions[text] = size
	}
	if w.instructions += size; w.instructions > maxSchemaInstructions {
		return schemaError(at, "its regular expressions compile to more than %d instructions together: use fewer or "+
			"smaller ones", maxSchemaInstructions)
	}
	return nil
}

func checkNumber(n json.Number) error {
	if len(n) > maxSchemaNumber {
		return fmt.Errorf("the number has %d characters: at most %d are allowed", len(n), maxSchemaNumber)
	}
	return checkExponent(n)
}

// checkExponent refuses numbers for which the library has no value: it compares with what is not there, and panics.
func checkExponent(n json.Number) error {
	i := strings.IndexAny(n.String(), "eE")
	if i < 0 {
		return nil
	}
	if e, err := strconv.Atoi(n.String()[i+1:]); err != nil || e < -maxExponent || e > maxExponent {
		return fmt.Errorf("the number %s is out of range: its exponent must be -%d to %d", quote.Short(n.String(), 80),
			maxExponent, maxExponent)
	}
	return nil
}
