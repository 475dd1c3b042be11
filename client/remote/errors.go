package remote

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"endoscope/parser"
	"endoscope/server/wire"
)

// errorOf is a call's error as users see it: a refusal is the *parser.Error that
// it was at the server, and a lost connection says whose it is. statement is what
// was sent.
func (s *session) errorOf(err error, statement string) error {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == wire.RefusalDomain && info.GetReason() == wire.RefusalReason {
			return refusal(info.GetMetadata(), statement)
		}
	}
	switch st.Code() {
	case codes.Canceled:
		return context.Canceled
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Unavailable:
		return &LostError{Addr: s.addr, Why: reason(st.Message())}
	}
	return fmt.Errorf("%s: %s", s.addr, st.Message())
}

// LostError says that there is no connection to the server.
type LostError struct {
	Addr string
	Why  string
}

// Lost says that the engine is not there, to those who know of no network.
func (e *LostError) Lost() bool { return true }

func (e *LostError) Error() string {
	return fmt.Sprintf("no connection to the engine at %s: %s", e.Addr, e.Why)
}

// refusal makes an error of a statement again; see wire.RefusalDomain.
func refusal(m map[string]string, statement string) error {
	e := &parser.Error{Msg: m[wire.RefusalMsg], Hint: m[wire.RefusalHint], Pos: parser.Span{Start: -1}, Syntax: m[wire.RefusalSyntax] != ""}
	start, err := strconv.Atoi(m[wire.RefusalStart])
	if err != nil {
		return e
	}
	src, ok := m[wire.RefusalSrc]
	if !ok {
		src = statement
	}
	stop, err := strconv.Atoi(m[wire.RefusalStop])
	if err != nil || start < 0 || start > stop || stop > len(src) {
		return e
	}
	e.Src, e.Pos = src, parser.Span{Start: start, Stop: stop}
	return e
}

// reason is the last part of what gRPC says of a connection that failed, which is
// what the system said.
func reason(text string) string {
	for _, before := range []string{"Error while dialing: ", "authentication handshake failed: ", "desc = "} {
		if i := strings.LastIndex(text, before); i >= 0 {
			return strings.Trim(text[i+len(before):], `"`)
		}
	}
	return text
}
