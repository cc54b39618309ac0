package plugin

import (
	"context"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// Scan looks through one text.
func (s *server) Scan(ctx context.Context, req *pluginv1.ScanRequest) (*pluginv1.ScanResponse, error) {
	release, err := s.enter(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	defer release()
	switch {
	case req.GetDeadlineUnixNano() < 0:
		return nil, status.Error(codes.InvalidArgument, "deadline_unix_nano: is negative")
	case !utf8.Valid(req.GetText()):
		return nil, status.Error(codes.InvalidArgument, "text: is not UTF-8")
	}
	ctx, end := within(ctx, req.GetDeadlineUnixNano())
	defer end()
	t := &Text{
		Text: string(req.GetText()), ToolID: req.GetToolId(), AgentID: req.GetAgentId(), ContentType: req.GetContentType(),
		Generation: req.GetGeneration(),
	}
	out := &pluginv1.ScanResponse{Id: req.GetId()}
	if ctx.Err() != nil {
		out.Error = "the deadline was over before the scan began"
		return out, nil
	}
	text := t.Text // the author may change t
	found, err := s.scanGuarded(ctx, t)
	switch {
	case err != nil:
		out.Error = failure(err)
	case ctx.Err() != nil:
		out.Error = "the findings came after the deadline"
	default:
		if out.Findings, err = s.parts.findings(text, found); err != nil {
			out.Error = clip("the findings break a rule: " + err.Error())
		}
	}
	if out.Error != "" {
		// an error may hold the text
		s.log.Warn("scan failed; the gateway has the error", "tool_id", req.GetToolId(), "bytes", len(text))
	}
	return out, nil
}

func (s *server) scanGuarded(ctx context.Context, t *Text) (found []sdk.Finding, err error) {
	defer func() {
		if r := recover(); r != nil {
			found, err = nil, s.panicked("Scan", r)
		}
	}()
	found, err = s.parts.scan(ctx, t)
	touch(err)
	return found, err
}
