package httpd

import (
	"reflect"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk/wire"
)

// route is what one method of one path does.
type route struct {
	method     string
	op         *ops.Op // nil for the open pages
	page       func(s *Server, ctx *fasthttp.RequestCtx, rid string)
	query      []string // names that the operation takes from the query
	noBody     bool     // an empty body is as good as {}
	denyStatus bool     // a DENY and a DEFER may be asked to say 403
	verdict    bool     // answers with a decision that may be a dry run
}

// resource is one path: few methods each, so that a list is faster than a map.
type resource struct {
	routes []*route
	allow  string // the Allow header
}

func (r *resource) of(method []byte) *route {
	for _, route := range r.routes {
		if string(method) == route.method {
			return route
		}
	}
	return nil
}

// pattern is a path with segments that stand for any one segment.
type pattern struct {
	segments []string // "" stands for any
	names    []string // what these are called, in order
	resource *resource
}

// router finds resources. It is not changed after New.
type router struct {
	exact    map[string]*resource
	patterns []*pattern
}

// add puts a route on a path, in which {name} stands for one segment. Of two with one method and path the first is
// served; a test finds the other.
func (t *router) add(path string, r *route) {
	res := t.resource(path)
	res.routes = append(res.routes, r)
	var methods []string
	for _, one := range res.routes {
		methods = append(methods, one.method)
	}
	slices.Sort(methods)
	res.allow = strings.Join(methods, ", ")
}

func (t *router) resource(path string) *resource {
	if !strings.Contains(path, "{") {
		if t.exact[path] == nil {
			t.exact[path] = &resource{}
		}
		return t.exact[path]
	}
	p := &pattern{resource: &resource{}}
	for _, segment := range strings.Split(path[1:], "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			p.names = append(p.names, strings.TrimSuffix(name, "}"))
			segment = ""
		}
		p.segments = append(p.segments, segment)
	}
	for _, known := range t.patterns {
		if slices.Equal(known.segments, p.segments) {
			return known.resource
		}
	}
	t.patterns = append(t.patterns, p)
	return p.resource
}

// find gives the resource at a path, nil for none. What stands in for named segments is appended to params.
func (t *router) find(path string, params []wire.Param) (*resource, []wire.Param) {
	if r := t.exact[path]; r != nil {
		return r, params
	}
	for _, p := range t.patterns {
		if out, ok := p.match(path, params); ok {
			return p.resource, out
		}
	}
	return nil, params
}

// match compares segment by segment; a segment that stands in for a name is not empty.
func (p *pattern) match(path string, params []wire.Param) ([]wire.Param, bool) {
	rest := path
	named := 0
	for i, want := range p.segments {
		if !strings.HasPrefix(rest, "/") {
			return nil, false
		}
		end := strings.IndexByte(rest[1:], '/') + 1
		if end == 0 {
			end = len(rest)
		}
		segment := rest[1:end]
		rest = rest[end:]
		switch {
		case (rest == "") != (i == len(p.segments)-1), segment == "", want != "" && segment != want:
			return nil, false
		case want == "":
			params = append(params, wire.Param{Name: p.names[named], Value: segment, InPath: true})
			named++
		}
	}
	return params, true
}

// routesOf makes the router for the table and the pages that need no key.
func routesOf() *router {
	t := &router{exact: map[string]*resource{}}
	for path, page := range openPages() {
		t.add(path, &route{method: fasthttp.MethodGet, page: page.serve})
	}
	for i := range ops.Table {
		op := &ops.Table[i]
		if op.Path == "" {
			continue
		}
		from := wire.ParamsOf(requestType(op))
		r := &route{method: op.Method, op: op, denyStatus: op.Path == "/v1/authorize",
			verdict: op.Run.Resp == reflect.TypeFor[wire.AuthorizeResponse](), noBody: !from.NeedsBody, query: op.Query}
		if op.Method == fasthttp.MethodGet {
			r.query = from.Query
		}
		t.add(op.Path, r)
	}
	return t
}

func requestType(op *ops.Op) reflect.Type {
	if op.Stream.Open != nil {
		return op.Stream.Req
	}
	return op.Run.Req
}
