package httpd

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const (
	testHeadMax = 512
	testBodyMax = 64
)

// strictResult is what the parser makes of a stream: the requests it let through, and why it stopped.
type strictResult struct {
	heads   []string
	bodies  []string
	pending bool   // stopped within a request, for want of bytes
	reason  string // the refusal, with its status

	bodyMissing bool // the last head's body is incomplete or refused
}

func (r strictResult) String() string {
	return fmt.Sprintf("heads %q bodies %q pending %v reason %q", r.heads, r.bodies, r.pending, r.reason)
}

// feedStrict gives in to a parser in the pieces that cuts (ascending offsets) make of it, holding what is incomplete as
// the connection does.
func feedStrict(in []byte, cuts ...int) (res strictResult) {
	p := strictParser{headMax: testHeadMax, bodyMax: testBodyMax}
	defer func() { res.bodyMissing = p.phase != phaseHead && p.phase != phaseEnd }()
	var held []byte
	from := 0
	for _, to := range append(cuts, len(in)) {
		held = append(held, in[from:to]...)
		from = to
		for len(held) > 0 {
			if p.phase == phaseEnd {
				if p.closing {
					return res
				}
				p.reset()
			}
			n, unit, err := p.next(held)
			if err != nil {
				res.reason = fmt.Sprintf("%d %s", err.Status, err.Reason)
				return res
			}
			if unit == unitMore {
				break
			}
			switch unit {
			case unitHead:
				res.heads = append(res.heads, string(held[:n]))
				res.bodies = append(res.bodies, "")
			case unitData:
				res.bodies[len(res.bodies)-1] += string(held[:n])
			}
			held = held[n:]
		}
	}
	res.pending = p.phase != phaseEnd && (p.phase != phaseHead || len(held) > 0)
	return res
}

var strictAccepted = []struct {
	name, in string
	bodies   []string
}{
	{"get", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", []string{""}},
	{"one leading CRLF", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", []string{""}},
	{"1.0 without host", "GET / HTTP/1.0\r\n\r\n", []string{""}},
	{"absolute form", "GET HTTP://a:1/x?y HTTP/1.1\r\nHost: a:1\r\n\r\n", []string{""}},
	{"ipv6 host", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", []string{""}},
	{"no space, tabs, empty and obs-text values", "GET / HTTP/1.1\r\nHost:a\r\nA:\r\nB: \t c\td \r\nC: \xff\x80 \"x\"\r\n\r\n", []string{""}},
	{"length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \t3 \r\n\r\nabc", []string{"abc"}},
	{"length with zeros", "POST / HTTP/1.1\r\nHost: a\r\ncontent-LENGTH: 003\r\n\r\nabc", []string{"abc"}},
	{"length zero", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", []string{""}},
	{"body at its limit", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 64\r\n\r\n" + strings.Repeat("x", 64), []string{strings.Repeat("x", 64)}},
	{"get with a body", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", []string{"x"}},
	{"chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n000\r\n\r\n", []string{"abc0123456789"}},
	{"chunked empty", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []string{""}},
	{"chunk of CRLFs", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n", []string{"\r\n\r\n"}},
	{"chunk extensions", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;a;b=c;d=\"e \\\" \\\\;\x80\"\r\nx\r\n0;z\r\n\r\n", []string{"x"}},
	{"chunked at the body limit", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n" + strings.Repeat("x", 64) + "\r\n0\r\n\r\n", []string{strings.Repeat("x", 64)}},
	{"trailer", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\n", []string{"x"}},
	{"pipelined", "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n", []string{"", "hi", ""}},
	{"expect", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", []string{"hi"}},
	{"one authorization", "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\nProxy-Authorization: y\r\n\r\n", []string{""}},
	{"head at its limit", headOf(testHeadMax), []string{""}},
}

// headOf makes a GET head of exactly n bytes.
func headOf(n int) string {
	const before, after = "GET / HTTP/1.1\r\nHost: a\r\nX: ", "\r\n\r\n"
	return before + strings.Repeat("v", n-len(before)-len(after)) + after
}

const (
	get  = "GET / HTTP/1.1\r\nHost: a\r\n"
	post = "POST / HTTP/1.1\r\nHost: a\r\n"
	chnk = post + "Transfer-Encoding: chunked\r\n\r\n"
)

// strictRefused ends where the violation is: nothing behind it is needed to see it. After marks how many requests come
// first.
var strictRefused = []struct {
	name, in, reason string
	after            int
}{
	{"lower-case method", "g", "method must be upper-case", 0},
	{"TLS on a plain port", "\x16", "method must be upper-case", 0},
	{"second leading CRLF", "\r\n\r", "method must be upper-case", 0},
	{"leading LF", "\n", "method must be upper-case", 0},
	{"leading bare CR", "\rG", "CR that no LF", 0},
	{"empty method", " ", "not an HTTP method", 0},
	{"unknown method", "FETCH ", "not an HTTP method", 0},
	{"RTSP method", "ANNOUNCE ", "not an HTTP method", 0},
	{"endless method", "GGGGGGGGGGGG", "not an HTTP method", 0},
	{"connect", "CONNECT ", "CONNECT is not supported", 0},
	{"http2 preface", "PRI ", "HTTP/2 is not supported", 0},
	{"two spaces after the method", "GET  ", "target must begin", 0},
	{"tab after the method", "GET\t", "method must be upper-case", 0},
	{"asterisk", "OPTIONS * ", "target must begin", 0},
	{"authority form", "GET a:80 ", "target must begin", 0},
	{"other scheme", "GET ftp://a/ ", "target must begin", 0},
	{"scheme alone", "GET http:// ", "target must begin", 0},
	{"control in target", "GET /\x01", "not visible ASCII", 0},
	{"DEL in target", "GET /\x7f", "not visible ASCII", 0},
	{"UTF-8 in target", "GET /\xce", "not visible ASCII", 0},
	{"0.9", "GET /\r", "no version follows", 0},
	{"space in target", "GET /a b", "version must be exactly", 0},
	{"version 2", "GET / HTTP/2", "version must be exactly", 0},
	{"version 1.2", "GET / HTTP/1.2", "version must be exactly", 0},
	{"version 1.10", "GET / HTTP/1.10", "version must be exactly", 0},
	{"lower-case version", "GET / h", "version must be exactly", 0},
	{"space after version", "GET / HTTP/1.1 ", "version must be exactly", 0},
	{"LF after version", "GET / HTTP/1.1\n", "LF alone", 0},
	{"CR after version", "GET / HTTP/1.1\rH", "CR that no LF", 0},
	{"fold after start line", "GET / HTTP/1.1\r\n ", "line folding", 0},
	{"fold", get + "A: b\r\n\t", "line folding", 0},
	{"empty line of LF", get + "\n", "LF alone", 0},
	{"CR then junk for the empty line", get + "\rX", "CR that no LF", 0},
	{"empty name", get + ":", "not a token", 0},
	{"space before colon", get + "A ", "space before the colon", 0},
	{"tab before colon", get + "A\t", "space before the colon", 0},
	{"no colon", get + "A\r", "not a token", 0},
	{"LF in name", get + "A\n", "LF alone", 0},
	{"NUL in name", get + "A\x00", "not a token", 0},
	{"non-ASCII name", get + "\xc3", "not a token", 0},
	{"at sign in name", get + "Fo@", "not a token", 0},
	{"LF in value", get + "A: b\n", "LF alone", 0},
	{"CR in value", get + "A: b\rc", "CR that no LF", 0},
	{"NUL in value", get + "A: b\x00", "control character", 0},
	{"NUL deep in value", get + "A: bbbbbbbbbbbbbbbbbbbbbbbbbbbb\x00", "control character", 0},
	{"DEL in value", get + "A: bbbbbbbbbbbbbbbb\x7f", "control character", 0},
	{"form feed in value", get + "A: \f", "control character", 0},
	{"no host", "GET / HTTP/1.1\r\n\r\n", "no Host", 0},
	{"two hosts", get + "host: a\r\n", "two Host", 0},
	{"empty host", "GET / HTTP/1.1\r\nHost: \r\n", "empty Host", 0},
	{"host with a slash", "GET / HTTP/1.1\r\nHost: a/b\r\n", "no host name has", 0},
	{"host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n", "no host name has", 0},
	{"host with userinfo", "GET / HTTP/1.1\r\nHost: u@a\r\n", "no host name has", 0},
	{"two authorizations", get + "Authorization: a\r\nauthorization: a\r\n", "two Authorization", 0},
	{"upgrade", get + "Upgrade: websocket\r\n", "Upgrade is not supported", 0},
	{"two lengths", post + "Content-Length: 3\r\nContent-Length: 3\r\n", "two Content-Length", 0},
	{"length list", post + "Content-Length: 3, 3\r\n", "not digits alone", 0},
	{"length empty", post + "Content-Length:\r\n", "empty Content-Length", 0},
	{"length plus", post + "Content-Length: +3\r\n", "not digits alone", 0},
	{"length minus", post + "Content-Length: -3\r\n", "not digits alone", 0},
	{"length hex", post + "Content-Length: 0x3\r\n", "not digits alone", 0},
	{"length with a space", post + "Content-Length: 1 2\r\n", "not digits alone", 0},
	{"length overflow", post + "Content-Length: 9223372036854775808\r\n", "no number can hold", 0},
	{"length far over", post + "Content-Length: 1000000000000000000000\r\n", "no number can hold", 0},
	{"length then coding", post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "both Content-Length", 0},
	{"coding then length", post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "both Content-Length", 0},
	{"two codings", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "two Transfer-Encoding", 0},
	{"coding identity", post + "Transfer-Encoding: identity\r\n", "other than chunked", 0},
	{"coding list", post + "Transfer-Encoding: gzip, chunked\r\n", "other than chunked", 0},
	{"coding xchunked", post + "Transfer-Encoding: xchunked\r\n", "other than chunked", 0},
	{"coding quoted", post + "Transfer-Encoding: \"chunked\"\r\n", "other than chunked", 0},
	{"coding empty", post + "Transfer-Encoding:\r\n", "other than chunked", 0},
	{"coding vertical tab", post + "Transfer-Encoding: \v", "control character", 0},
	{"coding in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", "HTTP/1.0", 0},
	{"head too large", headOf(testHeadMax + 1)[:testHeadMax], "413 headers: more than the limit of 512", 0},
	{"target too large", "GET /" + strings.Repeat("a", testHeadMax-5), "413 headers", 0},
	{"body too large", post + "Content-Length: 65\r\n\r\n", "413 body: more than the limit of 64", 0},
	{"chunk size empty", chnk + "\r", "hexadecimal digit", 1},
	{"chunk size minus", chnk + "-", "hexadecimal digit", 1},
	{"chunk size space first", chnk + " ", "hexadecimal digit", 1},
	{"chunk size 0x", chnk + "0x", "does not belong", 1},
	{"chunk size space after", chnk + "5 ", "does not belong", 1},
	{"chunk size 17 digits", chnk + "00000000000000001", "16 digits", 1},
	{"chunk size LF", chnk + "5\n", "LF alone", 1},
	{"chunk size CR", chnk + "5\r\r", "CR that no LF", 1},
	{"chunk size overflow", chnk + "ffffffffffffffff\r\n", "413 body", 1},
	{"chunk over the body limit", chnk + "41\r\n", "413 body", 1},
	{"second chunk over the body limit", chnk + "1\r\nx\r\n40\r\n", "413 body", 1},
	{"extension without name", chnk + "5;\r", "malformed chunk extension", 1},
	{"extension with a space", chnk + "5; ", "malformed chunk extension", 1},
	{"extension without value", chnk + "5;a=\r", "malformed chunk extension", 1},
	{"extension LF", chnk + "5;a\n", "LF alone", 1},
	{"extension two equals", chnk + "5;a=b=", "does not belong", 1},
	{"extension quote not closed", chnk + "5;a=\"b\r", "quoted value", 1},
	{"extension escaped CR", chnk + "5;a=\"b\\\r", "quoted value", 1},
	{"extension after quote", chnk + "5;a=\"b\"c", "does not belong", 1},
	{"extensions too large", chnk + "5;" + strings.Repeat("a", testHeadMax-2), "413 chunk extensions", 1},
	{"extensions together too large", chnk + strings.Repeat("1;"+strings.Repeat("a", 254)+"\r\nx\r\n", 2) + "1;bb\r\n", "413 chunk extensions", 1},
	{"chunk data too long", chnk + "1\r\nxy", "not followed by CRLF", 1},
	{"chunk data LF", chnk + "1\r\nx\n", "not followed by CRLF", 1},
	{"chunk data CR", chnk + "1\r\nx\r0", "not followed by CRLF", 1},
	{"no last chunk", chnk + "1\r\nx\r\n\r", "hexadecimal digit", 1},
	{"trailer length", chnk + "0\r\nContent-Length: 5\r\n", "must be a header: content-length", 1},
	{"trailer coding", chnk + "0\r\nTransfer-Encoding: chunked\r\n", "must be a header: transfer-encoding", 1},
	{"trailer authorization", chnk + "0\r\nAuthorization: x\r\n", "must be a header: authorization", 1},
	{"trailer host", chnk + "0\r\nHost: x\r\n", "must be a header: host", 1},
	{"trailer fold", chnk + "0\r\nA: b\r\n ", "line folding", 1},
	{"trailer LF", chnk + "0\r\n\n", "LF alone", 1},
	{"trailers too large", chnk + "0\r\nA: " + strings.Repeat("v", testHeadMax-1), "413 trailers", 1},
	{"second request bad", get + "\r\nGET / HTTP/1.1\n", "LF alone", 1},
}

func TestStrictParserAccepts(t *testing.T) {
	for _, tc := range strictAccepted {
		t.Run(tc.name, func(t *testing.T) {
			res := feedStrict([]byte(tc.in))
			if res.reason != "" || res.pending || fmt.Sprint(res.bodies) != fmt.Sprint(tc.bodies) {
				t.Fatalf("got %v\nwant bodies %q", res, tc.bodies)
			}
			everyCut(t, tc.in, res)
		})
	}
}

func TestStrictParserRefuses(t *testing.T) {
	for _, tc := range strictRefused {
		t.Run(tc.name, func(t *testing.T) {
			status := "400 "
			if strings.HasPrefix(tc.reason, "413 ") {
				status = "413 "
			}
			for _, in := range []string{tc.in, tc.in + "\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"} {
				res := feedStrict([]byte(in))
				if !strings.Contains(res.reason, tc.reason) || len(res.heads) != tc.after {
					t.Fatalf("got %v\nwant reason with %q after %d heads", res, tc.reason, tc.after)
				}
				if !strings.HasPrefix(res.reason, status) {
					t.Fatalf("status of %q", res.reason)
				}
				everyCut(t, in, res)
			}
			if res := feedStrict([]byte(tc.in[:len(tc.in)-1])); res.reason != "" {
				t.Fatalf("refused before the violation, so the case tests something else: %v", res)
			}
		})
	}
}

// everyCut feeds in in two pieces for every boundary, and byte by byte.
func everyCut(t *testing.T, in string, want strictResult) {
	t.Helper()
	var all []int
	for i := 1; i < len(in); i++ {
		if got := feedStrict([]byte(in), i); got.String() != want.String() {
			t.Fatalf("cut at %d: got %v\nwant %v", i, got, want)
		}
		all = append(all, i)
	}
	if got := feedStrict([]byte(in), all...); got.String() != want.String() {
		t.Fatalf("byte by byte: got %v\nwant %v", got, want)
	}
}

func FuzzStrictParser(f *testing.F) {
	for _, tc := range strictAccepted {
		f.Add([]byte(tc.in), uint16(7), uint16(31))
	}
	for _, tc := range strictRefused {
		f.Add([]byte(tc.in), uint16(3), uint16(20))
	}
	f.Fuzz(func(t *testing.T, in []byte, a, b uint16) {
		want := feedStrict(in)
		i, j := int(a)%(len(in)+1), int(b)%(len(in)+1)
		if got := feedStrict(in, min(i, j), max(i, j)); got.String() != want.String() {
			t.Fatalf("cut at %d and %d: got %v\nwant %v", i, j, got, want)
		}
		sameAsNetHTTP(t, in, want)
	})
}

// sameAsNetHTTP reads the same stream with net/http: every request that the guard lets through must be one there too,
// with the same method, target and body.
func sameAsNetHTTP(t *testing.T, in []byte, res strictResult) {
	br := bufio.NewReader(bytes.NewReader(in))
	for i, head := range res.heads {
		if next, err := br.Peek(2); err == nil && string(next) == "\r\n" { // the server does so too, the reader does not
			_, _ = br.Discard(2)
		}
		line, _, _ := strings.Cut(head, "\r\n")
		part := strings.Split(line, " ")
		if u, err := url.ParseRequestURI(part[1]); err != nil || u.Host == "" && part[1][0] != '/' {
			return // a target that net/http does not take; the router of a server answers for it
		}
		r, err := http.ReadRequest(br)
		if err != nil {
			if strings.Contains(err.Error(), "bad trailer key") {
				return
			}
			t.Fatalf("net/http refuses what the guard lets through: %v\n%q", err, head)
		}
		if r.Method != part[0] || r.RequestURI != part[1] {
			t.Fatalf("net/http reads %s %s from %q", r.Method, r.RequestURI, head)
		}
		if i == len(res.heads)-1 && res.bodyMissing {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != res.bodies[i] {
			t.Fatalf("net/http reads the body %q (%v), the guard %q, after %q", body, err, res.bodies[i], head)
		}
	}
}
