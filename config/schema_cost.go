package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxSchemaWork bounds what one check against a module's schema may do: subschemas tried, each as often as references
// lead to it. 40 definitions that each refer twice to the next would be tried 2^40 times.
const maxSchemaWork = 10_000

// schemaWork walks a module's schema before any library sees it: its author is not trusted, and the library has neither
// a bound nor a way to be stopped.
type schemaWork struct {
	root any
	cost map[string]int // of what a reference leads to; 0 while it is walked
}

func checkSchemaWork(schema map[string]any) error {
	w := &schemaWork{root: schema, cost: map[string]int{}}
	_, err := w.walk(schema, 0)
	return err
}

// maxSchemaDepth is how deep a schema may nest.
const maxSchemaDepth = 64

func (w *schemaWork) walk(v any, depth int) (cost int, err error) {
	if depth > maxSchemaDepth {
		return 0, fmt.Errorf("nests deeper than %d", maxSchemaDepth)
	}
	add := func(sub any) error {
		n, err := w.walk(sub, depth+1)
		if cost += n; err == nil && cost > maxSchemaWork {
			err = fmt.Errorf("needs more than %d steps to check one value: its references multiply", maxSchemaWork)
		}
		return err
	}
	cost = 1
	switch v := v.(type) {
	case []any:
		for _, sub := range v {
			if err := add(sub); err != nil {
				return 0, err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			switch key {
			case "$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$anchor", "$id":
				return 0, fmt.Errorf("has %s: only $ref to a place in the schema itself is taken", key)
			case "$ref":
				n, err := w.follow(v[key])
				if err != nil {
					return 0, err
				}
				if cost += n; cost > maxSchemaWork {
					return 0, fmt.Errorf("needs more than %d steps to check one value: its references multiply", maxSchemaWork)
				}
			default:
				if err := add(v[key]); err != nil {
					return 0, err
				}
			}
		}
	}
	return cost, nil
}

// follow gives the cost of what a reference leads to.
func (w *schemaWork) follow(ref any) (int, error) {
	path, ok := ref.(string)
	if !ok || path != "#" && !strings.HasPrefix(path, "#/") {
		return 0, fmt.Errorf("has a $ref to %.80v: only a place in the schema itself, such as #/$defs/name, is taken", ref)
	}
	if cost, walked := w.cost[path]; walked {
		if cost == 0 {
			return 0, errors.New("refers to itself")
		}
		return cost, nil
	}
	target := w.root
	for _, part := range strings.Split(path, "/")[1:] {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		members, _ := target.(map[string]any) // of what is no object there are none
		var ok bool
		if target, ok = members[part]; !ok {
			return 0, fmt.Errorf("has a $ref to %.80s, which is not there", path)
		}
	}
	w.cost[path] = 0
	cost, err := w.walk(target, 0)
	w.cost[path] = cost
	return cost, err
}
