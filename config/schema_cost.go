package config

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxSchemaWork bounds what one check against a module's schema may do: subschemas tried, each as often as references
	// lead to it. 40 definitions that each refer twice to the next would be tried 2^40 times.
	maxSchemaWork = 10_000
	// instructionsPerStep is how much of a regular expression counts as one more step.
	instructionsPerStep = 50
)

// schemaWork walks a module's schema before any library sees it: its author is not trusted, and the library has neither
// a bound nor a way to be stopped.
type schemaWork struct {
	root any
	cost map[string]int // of what a reference leads to; 0 while it is walked

	places, paths int // places of the schema, and bytes of their paths

	expressions  map[string]int // instructions of each regular expression
	instructions int            // of all together
}

func checkSchemaWork(schema map[string]any) (*schemaWork, error) {
	w := &schemaWork{root: schema, cost: map[string]int{}, expressions: map[string]int{}}
	if err := w.size(schema, oneSchema, nil, 0, 0); err != nil {
		return nil, err
	}
	_, err := w.walk(schema, nil)
	return w, err
}

// walk gives the steps of one check against what is at a place.
func (w *schemaWork) walk(v any, at *schemaPlace) (cost int, err error) {
	add := func(n int, err error) error {
		if cost += n; err == nil && cost > maxSchemaWork {
			err = schemaError(at, "needs more than %d steps to check one value: its references multiply, or it tries large "+
				"regular expressions often", maxSchemaWork)
		}
		return err
	}
	cost = 1
	switch v := v.(type) {
	case []any:
		for i, sub := range v {
			if err := add(w.walk(sub, at.below(strconv.Itoa(i)))); err != nil {
				return 0, err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := at.below(key)
			var err error
			switch key {
			case "$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$anchor", "$id":
				return 0, schemaError(at, "%s is not supported: use $ref to a place in the schema itself, such as #/$defs/name",
					key)
			case "$ref":
				err = add(w.follow(v[key], at))
			default:
				if err = add(w.matching(key, v[key]), nil); err == nil {
					err = add(w.walk(v[key], at))
				}
			}
			if err != nil {
				return 0, err
			}
		}
	}
	return cost, nil
}

// matching gives the steps that the regular expressions of one keyword count for.
func (w *schemaWork) matching(key string, v any) (cost int) {
	switch v := v.(type) {
	case string:
		if key == "pattern" {
			cost = w.expressions[v] / instructionsPerStep
		}
	case map[string]any:
		if key == "patternProperties" {
			for text := range v {
				cost += w.expressions[text] / instructionsPerStep
			}
		}
	}
	return cost
}

// follow gives the cost of what a reference leads to.
func (w *schemaWork) follow(ref any, at *schemaPlace) (int, error) {
	text, _ := ref.(string)
	path, err := url.PathUnescape(text) // as the library reads it
	if err != nil || path != "#" && !strings.HasPrefix(path, "#/") {
		return 0, schemaError(at, "refers to %.80v: only a place in the schema itself is allowed, such as #/$defs/name", ref)
	}
	if cost, walked := w.cost[path]; walked {
		if cost == 0 {
			return 0, schemaError(at, "refers to itself")
		}
		return cost, nil
	}
	target, what := w.root, oneSchema
	var to *schemaPlace
	for _, part := range strings.Split(path, "/")[1:] {
		part = pointerMeans.Replace(part)
		members, _ := target.(map[string]any) // of what is no object there are none
		var ok bool
		if target, ok = members[part]; !ok {
			return 0, schemaError(at, "refers to %.80s, which is not there", path)
		}
		what, to = what.of(part), to.below(part)
	}
	if what != oneSchema {
		return 0, schemaError(at, "refers to %.80s, which is no schema", path)
	}
	w.cost[path] = 0
	if len(w.cost)*w.places > maxSchemaLookups {
		return 0, schemaError(at, "has %d references or more in %d places: use fewer references, or a smaller schema",
			len(w.cost), w.places)
	}
	cost, err := w.walk(target, to)
	w.cost[path] = cost
	return cost, err
}
