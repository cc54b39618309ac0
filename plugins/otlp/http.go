package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	spb "google.golang.org/genproto/googleapis/rpc/status"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
)

const (
	mediaProto = "application/x-protobuf"
	maxAnswer  = 64 << 10 // bytes of an answer that are read
	maxMessage = 512      // bytes of what a receiver says that are kept
)

// httpSender speaks OTLP/HTTP with protobuf bodies. It follows no redirect, since that would hand the headers to
// somebody else, and uses no proxy.
type httpSender struct {
	url     string
	headers http.Header
	client  *http.Client
	gzip    bool
	writers sync.Pool // of *gzip.Writer, which are large
}

func newHTTP(o *options) *httpSender {
	s := &httpSender{
		url: o.endpoint.String(), headers: o.headers.Clone(), gzip: o.gzip,
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:     (&net.Dialer{Timeout: o.timeout}).DialContext,
				TLSClientConfig: o.tls, TLSHandshakeTimeout: o.timeout, ForceAttemptHTTP2: true,
				MaxIdleConns: 2, MaxConnsPerHost: 2, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: maxAnswer,
				DisableCompression: true, // an answer is small, and a compressed one might not be
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	s.headers.Set("Content-Type", mediaProto)
	s.headers.Set("User-Agent", "yett-otlp/"+version)
	s.writers.New = func() any {
		w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // an error is of another level only
		return w
	}
	if o.gzip {
		s.headers.Set("Content-Encoding", "gzip")
	}
	return s
}

func (s *httpSender) close() error {
	s.client.CloseIdleConnections()
	return nil
}

func (s *httpSender) send(ctx context.Context, msg *collogspb.ExportLogsServiceRequest) (int64, string, *failure) {
	body, err := s.encode(msg)
	if err != nil {
		return 0, "", &failure{verdict: refuse, err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return 0, "", &failure{verdict: broken, err: err}
	}
	req.Header = s.headers
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, "", unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if resp.StatusCode/100 != 2 {
		return 0, "", refusal(resp, answer)
	}
	if err != nil {
		return 0, "", &failure{verdict: later, err: fmt.Errorf("reading its answer: %w", err)}
	}
	return accepted(resp, answer)
}

func (s *httpSender) encode(msg *collogspb.ExportLogsServiceRequest) ([]byte, error) {
	plain, err := proto.Marshal(msg)
	if err != nil || !s.gzip {
		return plain, err
	}
	w := s.writers.Get().(*gzip.Writer)
	defer s.writers.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	if _, err = w.Write(plain); err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// unreachable is an error of the connection, which may pass, without the method and the URL, which the operator knows.
func unreachable(err error) *failure {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &failure{verdict: later, err: err}
}

// accepted reads a good answer. What does not speak OTLP has not taken anything in, whatever its status.
func accepted(resp *http.Response, answer []byte) (int64, string, *failure) {
	if len(answer) > maxAnswer {
		return 0, "", &failure{verdict: broken, err: fmt.Errorf("its answer is longer than %d bytes", maxAnswer)}
	}
	if len(answer) == 0 {
		return 0, "", nil
	}
	var out collogspb.ExportLogsServiceResponse
	var err error
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch media {
	case mediaProto:
		err = proto.Unmarshal(answer, &out)
	case "application/json":
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(answer, &out)
	default:
		err = fmt.Errorf("its content type is %q", clip(media))
	}
	if err != nil {
		return 0, "", &failure{verdict: broken, err: fmt.Errorf("status %d, but not an answer of an OTLP receiver: %w",
			resp.StatusCode, err)}
	}
	p := out.GetPartialSuccess()
	return p.GetRejectedLogRecords(), clip(p.GetErrorMessage()), nil
}

// refusal reads any other answer: OTLP says which statuses pass.
func refusal(resp *http.Response, answer []byte) *failure {
	f := &failure{verdict: broken, err: fmt.Errorf("status %d%s", resp.StatusCode, said(resp, answer))}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		f.verdict, f.after = later, retryAfter(resp.Header.Get("Retry-After"), time.Now())
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		f.verdict = refuse
	}
	return f
}

// said is the message of a google.rpc.Status, which OTLP answers errors with, or the beginning of a text.
func said(resp *http.Response, answer []byte) string {
	var st spb.Status
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	message := ""
	switch {
	case media == mediaProto && proto.Unmarshal(answer, &st) == nil:
		message = st.GetMessage()
	case media == "application/json" && protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(answer, &st) == nil:
		message = st.GetMessage()
	case media == "text/plain":
		message = string(answer)
	}
	if message = clip(message); message == "" {
		return ""
	}
	return ": " + message
}

// retryAfter reads the header: seconds or a date. 0 is none.
func retryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(value, 10, 32); err == nil {
		return max(0, time.Duration(n)*time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// clip makes a foreign text fit for one line of a log.
func clip(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return r < ' ' || r == 0x7f }),
		" ")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return strings.TrimSpace(s)
}
