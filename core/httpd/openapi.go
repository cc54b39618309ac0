package httpd

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

type object = map[string]any

// OpenAPI is the OpenAPI 3.0 document of everything this package serves, made from the table of operations and the
// types of sdk/wire. Its bytes are the same for the same program.
func OpenAPI(version string) []byte {
	schemas := object{"Problem": problemSchema()}
	paths := object{}
	at := func(path string) object {
		if paths[path] == nil {
			paths[path] = object{}
		}
		return paths[path].(object)
	}
	for path, page := range openPages() {
		at(path)["get"] = page.describe()
	}
	for i := range ops.Table {
		if op := &ops.Table[i]; op.Path != "" {
			at(op.Path)[strings.ToLower(op.Method)] = operation(op, schemas)
		}
	}
	doc := object{
		"openapi": "3.0.3",
		"info": object{"title": "Yett", "version": version,
			"description": "A governance gateway for software agents: yes, no, not yet."},
		"paths": paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"key": object{"type": "http", "scheme": "bearer", "description": "An API key, yett_…"}},
		},
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // the document is built from constants: a programmer's mistake, seen by the first test
	}
	return append(out, '\n')
}

func content(kind, schema string) object {
	return object{kind: object{"schema": object{"$ref": "#/components/schemas/" + schema}}}
}

// describe is an open page's operation.
func (p *openPage) describe() object {
	answer := object{"application/json": object{"schema": object{"type": "object"}}}
	responses := object{"200": object{"description": "OK", "content": answer}}
	if p.unready {
		responses["503"] = object{"description": "Not ready", "content": answer}
	}
	return object{"operationId": p.id, "summary": p.summary, "responses": responses}
}

func operation(op *ops.Op, schemas object) object {
	req := requestType(op)
	define(req, schemas)
	responses := object{"200": success(op, schemas)}
	for _, status := range problemStatuses() {
		responses[status] = object{"description": "A problem (RFC 9457).",
			"content": content("application/problem+json", "Problem")}
	}
	o := object{"operationId": op.Name, "summary": op.Doc,
		"description": "Needs scope " + strings.Join(op.Needs.Names(), " or ") + ".",
		"security":    []object{{"key": []string{}}}, "responses": responses}
	if from := wire.ParamsOf(req); from.Body && op.Method != "GET" {
		o["requestBody"] = object{"required": from.NeedsBody, "content": content("application/json", req.Name())}
	}
	if params := parameters(op, schemas); params != nil {
		o["parameters"] = params
	}
	return o
}

// success is the answer of an operation that went well.
func success(op *ops.Op, schemas object) object {
	if op.Stream.Open != nil {
		return object{"description": "Server-sent events, without a name: data is {event_type, type, action_id, data, " +
			"timestamp}. A comment every 15 seconds.",
			"content": object{"text/event-stream": object{"schema": object{"type": "string"}}}}
	}
	resp := op.Run.Resp
	if f, ok := bare(resp); ok {
		return object{"description": "The answer.", "headers": listHeaders(resp),
			"content": object{"application/json": object{"schema": schemaOf(f.Type, schemas)}}}
	}
	define(resp, schemas)
	return object{"description": "The answer. A DENY and a DEFER are answers too.",
		"content": content("application/json", resp.Name())}
}

// bare finds the member that stands for the whole answer.
func bare(t reflect.Type) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yett") == "bare" {
			return t.Field(i), true
		}
	}
	return reflect.StructField{}, false
}

func listHeaders(resp reflect.Type) object {
	out := object{}
	if reflect.PointerTo(resp).Implements(reflect.TypeFor[interface{ NextCursor() string }]()) {
		str := object{"type": "string"}
		out["X-Next-Cursor"] = object{"schema": str, "description": "cursor of the next page; absent on the last one."}
		out["Link"] = object{"schema": str, "description": "The next page, rel=next (RFC 8288)."}
	}
	return out
}

// parameters are what an operation takes besides the body.
func parameters(op *ops.Op, schemas object) []object {
	var params []object
	req := requestType(op)
	from := wire.ParamsOf(req)
	for i := range req.NumField() {
		f := req.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := object{"name": name, "schema": schemaOf(f.Type, schemas), "description": f.Tag.Get("doc")}
		switch {
		case slices.Contains(from.Path, name):
			p["in"], p["required"] = "path", true
		case slices.Contains(from.Query, name) && op.Method == "GET":
			p["in"] = "query"
		default:
			continue
		}
		if p["description"] == "" {
			delete(p, "description")
		}
		params = append(params, p)
	}
	str := object{"type": "string"}
	for _, q := range op.Query {
		params = append(params, object{"name": q, "in": "query", "schema": str,
			"description": "Instead of the body's member."})
	}
	if requestType(op) == reflect.TypeFor[wire.EvaluateRequest]() {
		params = append(params, object{"name": "deny_status", "in": "query",
			"schema":      object{"type": "integer", "enum": []int{200, 403}},
			"description": "403: answer a dry run with that status, same body."})
	}
	if op.Path == "/v1/authorize" {
		params = append(params, object{"name": "deny_status", "in": "query",
			"schema":      object{"type": "integer", "enum": []int{200, 403}},
			"description": "403: answer DENY, DEFER and every dry run with that status, same body."})
	}
	if op.Stream.Open != nil {
		params = append(params, object{"name": "Last-Event-ID", "in": "header", "schema": str,
			"description": "Go on behind this event."})
	}
	if op.Method == "POST" && op.Body != ops.ScanBody && !op.Waits { // these keep no answer
		params = append(params, object{"name": "Idempotency-Key", "in": "header",
			"schema": object{"type": "string", "maxLength": 256}})
	}
	return params
}

// problemStatuses are all statuses of the error registry.
func problemStatuses() []string {
	var out []string
	for _, st := range wire.Statuses {
		if s := strconv.Itoa(st.HTTP); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

func problemSchema() object {
	var codes []string
	for c := range wire.Statuses {
		codes = append(codes, string(c))
	}
	slices.Sort(codes)
	str := object{"type": "string"}
	return object{"type": "object", "required": []string{"type", "title", "status", "detail", "code", "error",
		"request_id"}, "properties": object{
		"type": str, "title": str, "status": object{"description": "The HTTP status; in a 404 of /v1/defer/status the " +
			"text unknown."}, "detail": str,
		"code":  object{"type": "string", "enum": codes},
		"error": object{"type": "string", "description": "The same as code."}, "request_id": str,
		"field":  object{"type": "string", "description": "The field at fault."},
		"effect": object{"type": "string", "description": "DENY, when a decision could not be made or recorded."}}}
}

// define adds the schema of a type and of the types it names.
func define(t reflect.Type, schemas object) {
	if _, done := schemas[t.Name()]; done {
		return
	}
	props := object{}
	schema := object{"type": "object", "properties": props}
	schemas[t.Name()] = schema
	var required []string
	var one []object // exactly one of these holds
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		rules := strings.Split(f.Tag.Get("yett"), ",")
		if name == "-" || slices.Contains(rules, "path") {
			continue
		}
		request := strings.HasSuffix(t.Name(), "Request")
		if slices.Contains(rules, "required") || !request && !strings.Contains(opts, "omitempty") {
			required = append(required, name)
		}
		if slices.Contains(rules, "one") {
			one = append(one, object{"required": []string{name}})
		}
		p := schemaOf(f.Type, schemas)
		if slices.Contains(rules, "any") {
			p = object{}
		}
		if slices.Contains(rules, "null") {
			p = nullable(p)
		}
		if doc := f.Tag.Get("doc"); doc != "" && p["$ref"] == nil {
			p["description"] = doc
		}
		if slices.Contains(rules, "name") {
			p["maxLength"] = 256
		}
		if name == "effect" && !request {
			p["enum"] = effects(t)
		}
		props[name] = p
	}
	if required != nil {
		schema["required"] = required
	}
	if one != nil {
		schema["oneOf"] = one
	}
}

// nullable lets a schema be null; a reference cannot say so itself.
func nullable(p object) object {
	if p["$ref"] != nil {
		return object{"allOf": []object{p}, "nullable": true}
	}
	p["nullable"] = true
	return p
}

func effects(t reflect.Type) []string {
	out := []string{sdk.Permit.String(), sdk.Deny.String(), sdk.Defer.String()}
	if t == reflect.TypeFor[wire.Check]() || t == reflect.TypeFor[wire.Shadow]() {
		out = append(out, sdk.Abstain.String())
	}
	return out
}

func schemaOf(t reflect.Type, schemas object) object {
	if t == reflect.TypeFor[exact.Value]() {
		return object{"type": "object", "additionalProperties": true}
	}
	if t == reflect.TypeFor[[]byte]() || t == reflect.TypeFor[json.RawMessage]() {
		return object{} // JSON as it is
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem(), schemas)}
	case reflect.Struct:
		define(t, schemas)
		return object{"$ref": "#/components/schemas/" + t.Name()}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float32:
		return object{"type": "number"}
	}
	return object{"type": "string"}
}
