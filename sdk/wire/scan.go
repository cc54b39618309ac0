package wire

import "encoding/json"

// ScanRequest gives one text, a JSON value or several of both to the scan chain.
type ScanRequest struct {
	ToolID      string          `json:"tool_id,omitempty" yett:"name" doc:"The tool whose output this is. It is required, unless each entry of outputs has its own. If there is an operation and tool_id has no slash, the full name of the tool is tool_id/operation."`
	Operation   string          `json:"operation,omitempty" yett:"name" doc:"The tool's operation, such as \"refund\"."`
	Output      string          `json:"output,omitempty" yett:"one" doc:"The text. Exactly one of output, output_json and outputs is required."`
	OutputJSON  json.RawMessage `json:"output_json,omitempty" yett:"one" doc:"Instead of output: the output as a JSON value. null is a value too."`
	Outputs     []ScanOutput    `json:"outputs,omitempty" yett:"one" doc:"Instead of output: from 1 to 256 outputs."`
	AgentID     string          `json:"agent_id,omitempty" yett:"name"`
	SessionID   string          `json:"session_id,omitempty" yett:"name"`
	ContentType string          `json:"content_type,omitempty" yett:"name" doc:"The media type of the text, for example \"application/json\". With output_json, it must be a JSON type."`
	StreamID    string          `json:"stream_id,omitempty" yett:"name" doc:"Only with output. The name of a scan stream: a text that is sent in pieces. It belongs to the key and the tool."`
	Offset      int             `json:"offset,omitempty" doc:"With stream_id: the number of UTF-8 bytes that were sent before this piece."`
	Final       bool            `json:"final,omitempty" doc:"With stream_id: true marks the final piece."`
}

// ScanOutput is one of several outputs in one request.
type ScanOutput struct {
	ToolID      string          `json:"tool_id,omitempty" yett:"name" doc:"The tool whose output this is. The default is the tool_id of the request. The operation of the request applies to it as well."`
	Output      string          `json:"output,omitempty" yett:"one" doc:"The text. Exactly one of output and output_json is required."`
	OutputJSON  json.RawMessage `json:"output_json,omitempty" yett:"one" doc:"Instead of output: the output as a JSON value. null is a value too."`
	ContentType string          `json:"content_type,omitempty" yett:"name" doc:"The media type of the text. The default is the content_type of the request. With output_json, it must be a JSON type, and there is no default."`
}

// ScanStream says how far a stream has come.
type ScanStream struct {
	NextOffset int  `json:"next_offset" doc:"The offset of the next piece: the number of bytes that were sent."`
	Settled    int  `json:"settled" doc:"The number of input bytes that all answers so far have released or redacted."`
	Released   int  `json:"released" doc:"The number of bytes in sanitized_output of all answers so far, including this answer."`
	Ended      bool `json:"ended" doc:"true after the final piece, and after DENIED."`
}

// ScanFinding is one span. Offsets are bytes into the input; the matched text is never there.
type ScanFinding struct {
	Index      *int    `json:"index,omitempty" doc:"Only with outputs: the number of the output in the request, from 0. start and end count from the start of this output."`
	Kind       string  `json:"kind"`
	Scanner    string  `json:"scanner"`
	Start      int     `json:"start"`
	End        int     `json:"end"`
	Confidence float32 `json:"confidence"`
	Severity   string  `json:"severity"`
	Action     string  `json:"action" doc:"\"allow\", \"flag\", \"redact\", \"replace\" or \"deny\"."`
}

// Receipt says what one scanner did.
type Receipt struct {
	Scanner     string `json:"scanner"`
	Version     string `json:"version,omitempty"`
	Digest      string `json:"digest,omitempty"`
	Bytes       int    `json:"bytes"`
	Outcome     string `json:"outcome" doc:"\"ok\", \"error\", \"timeout\", \"skipped\" or \"waiting\". \"skipped\": the step does not concern this tool or agent. \"waiting\": the scanner needs more of the scan stream, and the gateway holds back the text that the scanner has not seen."`
	Micros      int64  `json:"micros"`
	Prefiltered bool   `json:"prefiltered" doc:"true if the text contains none of the scanner's triggers. The gateway then did not call the scanner, because the scanner could find nothing."`
	Shadow      bool   `json:"shadow,omitempty"`
	Error       string `json:"error,omitempty"`
}

// ScanResponse is what may be released.
type ScanResponse struct {
	Outcome         string          `json:"outcome" doc:"PASS, WARNED, REDACTED or DENIED."`
	SanitizedOutput *string         `json:"sanitized_output,omitempty" doc:"The text that you may pass on. It is absent if \"outcome\" is DENIED. With stream_id, it is the text that you may pass on now."`
	SanitizedJSON   json.RawMessage `json:"sanitized_json,omitempty" doc:"Only with output_json: the value that you may pass on. It is absent if \"outcome\" is DENIED."`
	Outputs         []ScanVerdict   `json:"outputs,omitempty" doc:"Only with outputs: one verdict for each output, in the same order. outcome, reason_code and reason of the answer are then those of the strictest verdict. If several are equally strict, they are those of the first."`
	ReasonCode      string          `json:"reason_code"`
	Reason          string          `json:"reason,omitempty"`
	Findings        []ScanFinding   `json:"findings"`
	ScannedBy       []Receipt       `json:"scanned_by" doc:"What each scanner did. With outputs, a row is about all outputs together: bytes and micros are sums."`
	ScanID          string          `json:"scan_id"`
	PolicyVersion   string          `json:"policy_version"`
	LatencyMS       int64           `json:"latency_ms"`
	Retry           *Retry          `json:"retry,omitempty" doc:"Only with reason_code SCAN_UNAVAILABLE. The class is \"after\" if a scanner did not finish. The class is \"never\" if no scanner is configured for the tool and agent."`
	Stream          *ScanStream     `json:"stream,omitempty" doc:"Only with stream_id. Offsets of findings then count from the start of the scan stream."`
}

// ScanVerdict is what may be released of one of several outputs.
type ScanVerdict struct {
	Outcome         string          `json:"outcome" doc:"PASS, WARNED, REDACTED or DENIED."`
	SanitizedOutput *string         `json:"sanitized_output,omitempty" doc:"The text that you may pass on, if the output was sent as output. It is absent if \"outcome\" is DENIED."`
	SanitizedJSON   json.RawMessage `json:"sanitized_json,omitempty" doc:"The value that you may pass on, if the output was sent as output_json. It is absent if \"outcome\" is DENIED."`
	ReasonCode      string          `json:"reason_code"`
	Reason          string          `json:"reason,omitempty"`
	Retry           *Retry          `json:"retry,omitempty" doc:"As in the answer."`
}

// AppendJSON appends the response.
func (r *ScanResponse) AppendJSON(dst []byte) []byte {
	o := Object(dst)
	o.Str("outcome", r.Outcome)
	sanitized(&o, r.SanitizedOutput, r.SanitizedJSON)
	if len(r.Outputs) > 0 {
		o.List("outputs", len(r.Outputs), func(i int, w *Writer) { r.Outputs[i].members(w) })
	}
	o.Str("reason_code", r.ReasonCode)
	o.Opt("reason", r.Reason)
	o.List("findings", len(r.Findings), func(i int, w *Writer) { r.Findings[i].Members(w) })
	o.List("scanned_by", len(r.ScannedBy), func(i int, w *Writer) { r.ScannedBy[i].Members(w) })
	o.Str("scan_id", r.ScanID)
	o.Str("policy_version", r.PolicyVersion)
	o.Int("latency_ms", r.LatencyMS)
	r.Retry.member(&o)
	if st := r.Stream; st != nil {
		o.Object("stream", func(w *Writer) {
			w.Int("next_offset", int64(st.NextOffset))
			w.Int("settled", int64(st.Settled))
			w.Int("released", int64(st.Released))
			w.Bool("ended", st.Ended)
		})
	}
	return o.Close()
}

// sanitized writes what may be released: text, JSON, or nothing.
func sanitized(w *Writer, text *string, value json.RawMessage) {
	if text != nil {
		w.Str("sanitized_output", *text)
	}
	if len(value) > 0 {
		w.Raw("sanitized_json", value)
	}
}

func (v *ScanVerdict) members(w *Writer) {
	w.Str("outcome", v.Outcome)
	sanitized(w, v.SanitizedOutput, v.SanitizedJSON)
	w.Str("reason_code", v.ReasonCode)
	w.Opt("reason", v.Reason)
	v.Retry.member(w)
}

// Members writes the finding's members.
func (f *ScanFinding) Members(w *Writer) {
	if f.Index != nil {
		w.Int("index", int64(*f.Index))
	}
	w.Str("kind", f.Kind)
	w.Str("scanner", f.Scanner)
	w.Int("start", int64(f.Start))
	w.Int("end", int64(f.End))
	w.Float32("confidence", f.Confidence)
	w.Str("severity", f.Severity)
	w.Str("action", f.Action)
}

// Members writes the receipt's members.
func (r *Receipt) Members(w *Writer) {
	w.Str("scanner", r.Scanner)
	w.Opt("version", r.Version)
	w.Opt("digest", r.Digest)
	w.Int("bytes", int64(r.Bytes))
	w.Str("outcome", r.Outcome)
	w.Int("micros", r.Micros)
	w.Bool("prefiltered", r.Prefiltered)
	if r.Shadow {
		w.Bool("shadow", true)
	}
	w.Opt("error", r.Error)
}

// RetryAfter is as of AuthorizeResponse.
func (r *ScanResponse) RetryAfter() int { return r.Retry.wait() }
