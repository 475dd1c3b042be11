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

// statusOf is an error of the engine as clients get it. A refusal reads as a user
// sees it, with the line and the caret, and has a detail from which a client can
// make it again; the text that it is about is in it only if it is not the
// statement that the client sent.
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
