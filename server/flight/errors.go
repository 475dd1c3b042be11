package flight

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"endoscope/parser"
	"endoscope/server/wire"
)

// statusOf converts an error of the engine to a gRPC status. The message of a
// refusal is what a user sees, with the line and the caret, and a detail lets a
// client reconstruct the error. The detail includes the text that it refers to
// only if that is not the statement that the client sent.
func statusOf(err error, statement string) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	var e *parser.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "canceled")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "out of time")
	default:
		return status.Error(codes.Unknown, err.Error())
	}
	detail := map[string]string{wire.RefusalMsg: e.Msg, wire.RefusalHint: e.Hint}
	if e.Src != "" {
		detail[wire.RefusalStart] = strconv.Itoa(e.Pos.Start)
		detail[wire.RefusalStop] = strconv.Itoa(e.Pos.Stop)
		if e.Src != statement {
			detail[wire.RefusalSrc] = e.Src
		}
	}
	if e.Syntax {
		detail[wire.RefusalSyntax] = "true"
	}
	st := status.New(codes.InvalidArgument, strings.TrimPrefix(parser.Format(e), "error: "))
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: wire.RefusalReason, Domain: wire.RefusalDomain, Metadata: detail})
	if err != nil {
		return st.Err()
	}
	return detailed.Err()
}
