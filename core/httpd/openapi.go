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

// OpenAPI is the OpenAPI 3.0 document of everything this package serves, made from the table of operations and the types
// of sdk/wire. Its bytes are the same for the same program.
func OpenAPI(version string) []byte {
	schemas := object{"Problem": problemSchema()}
	paths := object{
		"/healthz":      object{"get": open("Whether the process is alive.", "healthz")},
		"/readyz":       object{"get": readiness()},
		"/openapi.json": object{"get": open("This document.", "openapi")},
	}
	for i := range ops.Table {
		op := &ops.Table[i]
		if op.Path == "" {
			continue
		}
		paths[op.Path] = object{strings.ToLower(op.Method): operation(op, schemas)}
	}
	doc := object{
		"openapi": "3.0.3",
		"info":    object{"title": "Yett", "version": version, "description": "A governance gateway for software agents: yes, no, not yet."},
		"paths":   paths,
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

func open(summary, id string) object {
	return object{"operationId": id, "summary": summary, "responses": object{"200": object{"description": "OK", "content": object{"application/json": object{"schema": object{"type": "object"}}}}}}
}

func readiness() object {
	o := open("Whether decisions can be made and recorded, part by part.", "readyz")
	o["responses"].(object)["503"] = object{"description": "Not ready", "content": object{"application/json": object{"schema": object{"type": "object"}}}}
	return o
}

func operation(op *ops.Op, schemas object) object {
	define(op.Run.Req, schemas)
	define(op.Run.Resp, schemas)
	responses := object{"200": object{"description": "The answer. A DENY and a DEFER are answers too.", "content": content("application/json", op.Run.Resp.Name())}}
	for _, status := range problemStatuses() {
		responses[status] = object{"description": "A problem (RFC 9457).", "content": content("application/problem+json", "Problem")}
	}
	var params []object
	for _, q := range op.Query {
		params = append(params, object{"name": q, "in": "query", "schema": object{"type": "string"}, "description": "Instead of the body's member."})
	}
	if op.Decides {
		params = append(params, object{"name": "deny_status", "in": "query", "schema": object{"type": "integer", "enum": []int{200, 403}}, "description": "403: answer DENY and DEFER with that status, same body."})
	}
	if op.Body != ops.ScanBody {
		params = append(params, object{"name": "Idempotency-Key", "in": "header", "schema": object{"type": "string", "maxLength": 256}})
	}
	o := object{"operationId": op.Name, "summary": op.Doc, "description": "Needs scope " + strings.Join(op.Needs.Names(), " or ") + ".", "security": []object{{"key": []string{}}},
		"requestBody": object{"required": len(op.Query) == 0, "content": content("application/json", op.Run.Req.Name())}, "responses": responses}
	if params != nil {
		o["parameters"] = params
	}
	return o
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
	return object{"type": "object", "required": []string{"type", "title", "status", "detail", "code", "error", "request_id"}, "properties": object{
		"type": str, "title": str, "status": object{"description": "The HTTP status; in a 404 of /v1/defer/status the text unknown."}, "detail": str,
		"code": object{"type": "string", "enum": codes}, "error": object{"type": "string", "description": "The same as code."}, "request_id": str,
		"field": object{"type": "string", "description": "The field at fault."}, "effect": object{"type": "string", "description": "DENY, when a decision could not be made or recorded."}}}
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
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		rules := strings.Split(f.Tag.Get("yett"), ",")
		request := strings.HasSuffix(t.Name(), "Request")
		if slices.Contains(rules, "required") || !request && !strings.Contains(opts, "omitempty") {
			required = append(required, name)
		}
		p := schemaOf(f.Type, schemas)
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
