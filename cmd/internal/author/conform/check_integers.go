package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
)

// checkIntegers writes the integers of the settings in another way. The schema, which speaks first, takes 100.0 for an
// integer: a plugin that then refuses it keeps the gateway from its start.
func checkIntegers(ctx context.Context, r *run) error {
	if r.opts.CheckConfig == nil {
		return skipped("no checker of JSON Schemas was handed in")
	}
	config, n := respelt(r.config)
	if n == 0 || r.opts.CheckConfig(r.info.ConfigSchema, config) != nil {
		r.saw("there is none in the settings")
		return nil
	}
	s, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	defer r.done(s)
	const advice = "to JSON Schema 100.0 is the integer 100: take it too (Settings.Decode does)"
	req := r.request(s, true)
	req.Config = config
	resp, err := r.plugin(s).Configure(ctx, req)
	if err != nil {
		return r.gone(s, failed(advice, "Configure (validate_only true) with .0 behind the integers of the settings: %s",
			said(err)))
	}
	if len(resp.GetProblems()) > 0 {
		return failed(advice, "with .0 behind the integers of the settings, which the schema takes: %s", problems(resp))
	}
	return nil
}

// respelt writes .0 behind each integer of a document, and counts them.
func respelt(doc []byte) (out []byte, n int) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, 0
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			if !strings.ContainsAny(v.String(), ".eE") {
				n++
				return v + ".0"
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			for name := range v {
				v[name] = walk(v[name])
			}
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		return nil, 0
	}
	return out, n
}
