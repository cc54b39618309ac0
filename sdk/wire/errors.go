package wire

import (
	"strconv"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// Status is one row of the error registry: what a code is over HTTP.
type Status struct {
	HTTP  int
	Title string
}

// Statuses maps every error code to its HTTP status and title. It is the one place where that is said.
var Statuses = map[sdk.Code]Status{
	sdk.CodeInvalidJSON:       {400, "The body is not acceptable JSON"},
	sdk.CodeBadRequest:        {400, "The request is malformed"},
	sdk.CodeInvalidField:      {422, "A field has a value that is not allowed"},
	sdk.CodeMissingField:      {422, "A required field is missing"},
	sdk.CodeUnauthenticated:   {401, "No valid API key"},
	sdk.CodeKeyRevoked:        {401, "The API key is revoked"},
	sdk.CodeKeyExpired:        {401, "The API key is expired"},
	sdk.CodeMissingScope:      {403, "The API key lacks a scope"},
	sdk.CodeAgentNotAllowed:   {403, "The API key may not act for this agent"},
	sdk.CodeSelfApproval:      {403, "Nobody approves their own call"},
	sdk.CodeNotFound:          {404, "No such resource"},
	sdk.CodeUnknownDefer:      {404, "No such deferred call"},
	sdk.CodeUnknownKey:        {404, "No such API key"},
	sdk.CodeUnknownGrant:      {404, "No such standing grant"},
	sdk.CodeUnknownAction:     {404, "No such action"},
	sdk.CodeUnknownKill:       {404, "Nothing is killed under that name"},
	sdk.CodeUnknownOperation:  {404, "No such operation"},
	sdk.CodeNoCommonVersion:   {422, "No protocol version in common"},
	sdk.CodeWrongToken:        {401, "Not this action's approval token"},
	sdk.CodeNotApprover:       {403, "Not one of the named approvers"},
	sdk.CodeKeyKilled:         {403, "The API key is killed"},
	sdk.CodeUndoRefused:       {403, "A killed agent or key cannot undo the kill"},
	sdk.CodeModifiedDenied:    {422, "The rules deny the modified call"},
	sdk.CodeInvalidPolicy:     {422, "The policy is not valid"},
	sdk.CodeActionExpired:     {409, "The action was decided too long ago"},
	sdk.CodeNotDurable:        {503, "In effect, but not on disk"},
	sdk.CodeMethodNotAllowed:  {405, "Method not allowed"},
	sdk.CodeConflict:          {409, "The current state does not allow this"},
	sdk.CodeCallChanged:       {409, "The deferred call is not the one that was shown"},
	sdk.CodeAlreadyResolved:   {409, "The deferred call is resolved already"},
	sdk.CodeNameTaken:         {409, "The name is taken"},
	sdk.CodeDeferExpired:      {410, "The deferred call is expired"},
	sdk.CodeStreamOffset:      {409, "The piece does not follow the one before it"},
	sdk.CodeStreamUnknown:     {409, "No such stream is open"},
	sdk.CodeStreamEnded:       {409, "The stream has ended"},
	sdk.CodeStreamBusy:        {409, "Another piece of the stream is being scanned"},
	sdk.CodeTooLarge:          {413, "Too large"},
	sdk.CodeUnsupportedCoding: {415, "Unsupported content coding"},
	sdk.CodeIdempotencyReused: {422, "The idempotency key was used for another body"},
	sdk.CodeTooManyRequests:   {429, "Too many requests"},
	sdk.CodeOverloaded:        {503, "The server has no room for the request"},
	sdk.CodeTimeout:           {408, "The request took too long"},
	sdk.CodeInternal:          {500, "Internal error"},
	sdk.CodeAuditUnavailable:  {503, "Nothing can be recorded, so nothing is permitted"},
	sdk.CodeDraining:          {503, "The server is going down"},
}

// StatusOf is the registry row of a code; an unknown code is internal.
func StatusOf(c sdk.Code) Status {
	if s, ok := Statuses[c]; ok {
		return s
	}
	return Statuses[sdk.CodeInternal]
}

// AppendProblem appends the RFC 9457 document of an error. Members of err.More come last, in the order of their names.
func AppendProblem(dst []byte, err *sdk.Error, requestID string) []byte {
	st := StatusOf(err.Code)
	detail := err.Msg
	if detail == "" {
		detail = st.Title + "."
	}
	o := Object(dst)
	o.Str("type", "https://yett.dev/problems/"+string(err.Code))
	o.Str("title", st.Title)
	if named, ok := err.More["status"]; ok { // polls look for the defer's status under this name
		o.Str("status", named)
	} else {
		o.Int("status", int64(st.HTTP))
	}
	o.Str("detail", detail)
	o.Str("code", string(err.Code))
	o.Str("error", string(err.Code))
	o.Str("request_id", requestID)
	if err.Field != "" {
		o.Str("field", err.Field)
	}
	for _, k := range sortedKeys(err.More) {
		switch k {
		case "status":
		case "line", "column": // numbers: of a policy text
			o.Raw(k, []byte(err.More[k]))
		default:
			o.Str(k, err.More[k])
		}
	}
	return o.Close()
}

// Writer appends the members of one JSON object. It is the hot paths' encoder: no reflection, no allocation.
type Writer struct {
	b     []byte
	empty bool
}

// Object starts an object at the end of dst.
func Object(dst []byte) Writer { return Writer{append(dst, '{'), true} }

func (w *Writer) name(name string) {
	if !w.empty {
		w.b = append(w.b, ',')
	}
	w.empty = false
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

// Str adds a string member. Names are written as they are: they must need no escapes.
func (w *Writer) Str(name, v string) {
	w.name(name)
	w.b = exact.AppendString(w.b, v)
}

// Ascii adds a string member from bytes that need no escapes: times, digests, ids.
func (w *Writer) Ascii(name string, v []byte) {
	w.name(name)
	w.b = append(append(append(w.b, '"'), v...), '"')
}

// Opt adds a string member unless it is empty.
func (w *Writer) Opt(name, v string) {
	if v != "" {
		w.Str(name, v)
	}
}

// Int adds a number.
func (w *Writer) Int(name string, v int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

// Bool adds a boolean.
func (w *Writer) Bool(name string, v bool) {
	w.name(name)
	w.b = strconv.AppendBool(w.b, v)
}

// True adds a member that is true, or nothing.
func (w *Writer) True(name string, v bool) {
	if v {
		w.Bool(name, true)
	}
}

// Float32 adds a number in its shortest form. v must be finite.
func (w *Writer) Float32(name string, v float32) {
	w.name(name)
	w.b = strconv.AppendFloat(w.b, float64(v), 'g', -1, 32)
}

// Raw adds a member whose value is JSON already.
func (w *Writer) Raw(name string, v []byte) {
	w.name(name)
	w.b = append(w.b, v...)
}

// Strs adds an array of strings.
func (w *Writer) Strs(name string, vs []string) {
	w.name(name)
	w.b = append(w.b, '[')
	for i, v := range vs {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = exact.AppendString(w.b, v)
	}
	w.b = append(w.b, ']')
}

// List adds an array of n objects, each written by fill.
func (w *Writer) List(name string, n int, fill func(i int, o *Writer)) {
	w.name(name)
	w.b = append(w.b, '[')
	for i := range n {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		o := Object(w.b)
		fill(i, &o)
		w.b = o.Close()
	}
	w.b = append(w.b, ']')
}

// Object adds a member that is an object, written by fill.
func (w *Writer) Object(name string, fill func(o *Writer)) {
	w.name(name)
	o := Object(w.b)
	fill(&o)
	w.b = o.Close()
}

// Close ends the object and gives the whole buffer.
func (w *Writer) Close() []byte { return append(w.b, '}') }
