package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
)

// smallRequest is a size that no receiver takes for too large.
const smallRequest = 64 << 10

// grpcSender speaks OTLP/gRPC.
type grpcSender struct {
	conn    *grpc.ClientConn
	client  collogspb.LogsServiceClient
	headers metadata.MD
}

func newGRPC(o *options) (*grpcSender, error) {
	creds := insecure.NewCredentials()
	port := "4317"
	if o.tls != nil {
		creds = credentials.NewTLS(o.tls)
	}
	if p := o.endpoint.Port(); p != "" {
		port = p
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithUserAgent("yett-otlp/" + version),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: o.timeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 5 * time.Minute, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)), grpc.WithMaxHeaderListSize(maxAnswer),
	}
	if o.gzip {
		opts = append(opts, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	}
	conn, err := grpc.NewClient("dns:///"+net.JoinHostPort(o.endpoint.Hostname(), port), opts...)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	s := &grpcSender{conn: conn, client: collogspb.NewLogsServiceClient(conn), headers: metadata.MD{}}
	for name, values := range o.headers {
		s.headers[strings.ToLower(name)] = values
	}
	return s, nil
}

func (s *grpcSender) close() error { return s.conn.Close() }

func (s *grpcSender) send(ctx context.Context, req *collogspb.ExportLogsServiceRequest) (int64, string, *failure) {
	out, err := s.client.Export(metadata.NewOutgoingContext(ctx, s.headers), req)
	if err != nil {
		return 0, "", sortStatus(status.Convert(err), proto.Size(req))
	}
	p := out.GetPartialSuccess()
	return p.GetRejectedLogRecords(), clip(p.GetErrorMessage()), nil
}

// sortStatus goes by OTLP's table of codes. size is that of the request.
func sortStatus(st *status.Status, size int) *failure {
	f := &failure{verdict: broken, err: fmt.Errorf("%s: %s", st.Code(), clip(st.Message()))}
	after, asked := retryInfo(st)
	switch st.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		f.verdict, f.after = later, after
	case codes.ResourceExhausted:
		switch {
		case asked:
			f.verdict, f.after = later, after
		case size > smallRequest:
			f.verdict = refuse
		}
	case codes.InvalidArgument:
		f.verdict = refuse
	}
	return f
}

// retryInfo is how long the receiver asks us to wait; asked is true when it says that the request may be sent again.
func retryInfo(st *status.Status) (after time.Duration, asked bool) {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return max(0, info.GetRetryDelay().AsDuration()), true
		}
	}
	return 0, false
}
