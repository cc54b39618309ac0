package mesh

import "github.com/yett-dev/yett/sdk/wire"

// httpCall is a request that Envoy asks about.
type httpCall struct {
	method, host, path, scheme string
	headers                    headers
	body                       []byte
}

// parseCheck reads a CheckRequest of envoy.service.auth.v3: attributes{request{http{…}}}.
func parseCheck(b []byte) (*httpCall, error) {
	const attributes, request, http = 1, 4, 2
	c := &httpCall{}
	found := false
	err := inside(b, attributes, func(b []byte) error {
		return inside(b, request, func(b []byte) error {
			return inside(b, http, func(b []byte) error {
				found = true
				return each(b, c.field, nil)
			})
		})
	})
	if err == nil && !found {
		return nil, errNoHTTP
	}
	return c, err
}

// inside calls f for a message that is a field of another.
func inside(b []byte, field number, f func(b []byte) error) error {
	return each(b, func(is number, v []byte) error {
		if is != field {
			return nil
		}
		return f(v)
	}, nil)
}

// field reads one of AttributeContext.HttpRequest.
func (c *httpCall) field(f number, v []byte) error {
	const method, headerPairs, path, host, scheme, body, rawBody, headerMap = 2, 3, 4, 5, 6, 11, 12, 13
	switch f {
	case method:
		return setText(&c.method, v)
	case headerPairs:
		return c.headers.pair(v, 2)
	case headerMap:
		return c.headers.headerMap(v)
	case path:
		return setText(&c.path, v)
	case host:
		return setText(&c.host, v)
	case scheme:
		return setText(&c.scheme, v)
	case body, rawBody:
		if len(v) > 0 {
			c.body = v
		}
	}
	return nil
}

// The codes of google.rpc that answers carry.
const rpcDenied = 7

// checked is a CheckResponse. The zero value denies.
type checked struct {
	permit  bool
	remove  []string // headers that the upstream must not get
	status  int      // of the answer to the client
	headers headers
	body    []byte
}

// encode writes the CheckResponse. One without a status would be a permit.
func (c *checked) encode() []byte {
	const status, deniedResponse, okResponse = 1, 2, 3
	if c.permit {
		var ok []byte
		for _, name := range c.remove {
			ok = putBytes(ok, 5, name)
		}
		return putBytes(putBytes(nil, status, ""), okResponse, ok)
	}
	code := c.status
	if code < 400 || code > 599 {
		code = 403
	}
	denied := putBytes(nil, 1, putNumber(nil, 1, uint64(code)))
	for _, h := range c.headers {
		denied = putHeader(denied, 2, h)
	}
	denied = putBytes(denied, 3, c.body)
	return putBytes(putBytes(nil, status, putNumber(nil, 1, rpcDenied)), deniedResponse, denied)
}

// phase is what a message of ext_proc is about: the number of its field in ProcessingRequest.
type phase number

const (
	requestHeaders   phase = 2
	responseHeaders  phase = 3
	requestBody      phase = 4
	responseBody     phase = 5
	requestTrailers  phase = 6
	responseTrailers phase = 7
)

// answer is the number of its field in ProcessingResponse.
func (p phase) answer() number { return number(p) - 1 }

// The body modes of ext_proc.
const buffered = 2

var modeNames = map[uint64]string{0: "NONE", 1: "STREAMED", 2: "BUFFERED", 3: "BUFFERED_PARTIAL",
	4: "FULL_DUPLEX_STREAMED", 5: "GRPC"}

// processing is one ProcessingRequest.
type processing struct {
	phase      phase
	headers    headers
	body       []byte
	end        bool // nothing follows on this way
	observing  bool // nobody waits for an answer
	configured bool // modes were sent
	early      bool // bodies come before headers are answered
	modes      [2]uint64
}

// parseProcessing reads a ProcessingRequest of envoy.service.ext_proc.v3.
func parseProcessing(b []byte) (*processing, error) {
	const observability, protocolConfig = 10, 11
	p := &processing{}
	err := each(b, func(f number, v []byte) error {
		switch {
		case f >= number(requestHeaders) && f <= number(responseTrailers):
			if p.phase != 0 {
				return errTwoPhases
			}
			p.phase = phase(f)
			return each(v, p.text, p.number)
		case f == protocolConfig:
			p.configured = true
			return each(v, nil, func(f number, n uint64) {
				switch f {
				case 1, 2:
					p.modes[f-1] = n
				case 3:
					p.early = n != 0
				}
			})
		}
		return nil
	}, func(f number, n uint64) {
		if f == observability {
			p.observing = n != 0
		}
	})
	if err == nil && p.phase == 0 {
		err = errNoPhase
	}
	return p, err
}

// text reads one field of HttpHeaders or HttpBody. Trailers are not looked at.
func (p *processing) text(f number, v []byte) error {
	switch {
	case f != 1:
	case p.phase == requestHeaders, p.phase == responseHeaders:
		return p.headers.headerMap(v)
	case p.phase == requestBody, p.phase == responseBody:
		p.body = v
	}
	return nil
}

// number reads end_of_stream, which HttpHeaders and HttpBody have under different numbers.
func (p *processing) number(f number, n uint64) {
	switch {
	case f == 3 && (p.phase == requestHeaders || p.phase == responseHeaders),
		f == 2 && (p.phase == requestBody || p.phase == responseBody):
		p.end = n != 0
	}
}

// processed is a ProcessingResponse. The zero value is an immediate response that refuses.
type processed struct {
	phase    phase // that may go on; 0: the client gets the answer below
	set      headers
	remove   []string
	replaced bool
	body     []byte

	status int
	detail string
}

func (p *processed) encode() []byte {
	const immediate = 7
	if p.phase == 0 {
		code := p.status
		if code < 400 || code > 599 {
			code = 403
		}
		m := putBytes(nil, 1, putNumber(nil, 1, uint64(code)))
		m = putBytes(m, 2, putHeader(nil, 1, header{"content-type", "application/json"}))
		m = putBytes(m, 3, p.body)
		return putBytes(nil, immediate, putBytes(m, 5, p.detail))
	}
	var mutation []byte
	for _, h := range p.set {
		mutation = putHeader(mutation, 1, h)
	}
	for _, name := range p.remove {
		mutation = putBytes(mutation, 2, name)
	}
	if p.phase == requestTrailers || p.phase == responseTrailers {
		return putBytes(nil, p.phase.answer(), "")
	}
	var common []byte
	if len(mutation) > 0 {
		common = putBytes(common, 2, mutation)
	}
	if p.replaced {
		common = putBytes(common, 3, putBytes(nil, 1, p.body))
	}
	return putBytes(nil, p.phase.answer(), putBytes(nil, 1, common))
}

// mcpCall is a McpRequest or a McpResponse of agentgateway.dev.ext_mcp.
type mcpCall struct {
	services []string
	method   string
	message  []byte // params or result, JSON
	given    bool
	headers  headers
}

// maxServices bounds the servers of one call before they are looked at.
const maxServices = 1000

// parseMCP reads a McpRequest or a McpResponse: they differ in the headers, which an answer has not.
func parseMCP(b []byte, request bool) (*mcpCall, error) {
	const serviceNames, method, message, headerPairs = 1, 2, 4, 5
	c := &mcpCall{}
	err := each(b, func(f number, v []byte) error {
		switch {
		case f == serviceNames:
			if len(c.services) == maxServices {
				return errManyServices
			}
			c.services = append(c.services, "")
			return setText(&c.services[len(c.services)-1], v)
		case f == method:
			return setText(&c.method, v)
		case f == message:
			c.message, c.given = v, true
		case f == headerPairs && request:
			return c.headers.pair(v, 2)
		}
		return nil
	}, nil)
	return c, err
}

// The codes of AuthorizationError.
const (
	mcpUnknown   = 0
	mcpDenied    = 1
	mcpExhausted = 2
	mcpInvalid   = 3
)

// mcpResult is a McpRequestResult or a McpResponseResult. The zero value is an error.
type mcpResult struct {
	pass    bool
	mutated []byte // instead, if it is there

	code    uint64
	reason  string
	problem []byte // the error of JSON-RPC
}

func (m *mcpResult) encode() []byte {
	const pass, mutated, failed = 1, 2, 3
	switch {
	case len(m.mutated) > 0:
		return putBytes(nil, mutated, m.mutated)
	case m.pass:
		return putBytes(nil, pass, "")
	}
	problem := m.problem
	if len(problem) == 0 {
		o := wire.Object(nil)
		o.Int("code", rpcInternal)
		o.Str("message", "The gateway gave no answer.")
		problem = o.Close()
	}
	return putBytes(nil, failed, putBytes(putBytes(putNumber(nil, 1, m.code), 2, m.reason), 3, problem))
}
