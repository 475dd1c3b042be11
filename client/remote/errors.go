package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
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
		return lost(s.addr, reason(st.Message()), s.plain)
	}
	return fmt.Errorf("%s: %s", s.addr, st.Message())
}

// LostError says that there is no connection to the server.
type LostError struct {
	Addr string
	Why  string
	hint string // what the user can do
	// unanswered: unencrypted, nothing that an engine says came.
	unanswered bool
}

// Hint is what the user can do about it; "": nothing is known.
func (e *LostError) Hint() string { return e.hint }

// lost is the error of a connection that ended for a reason; where the two sides
// do not agree on encryption, it says so. plain: it was TCP, not encrypted.
func lost(addr, why string, plain bool) *LostError {
	e := &LostError{Addr: addr, Why: why}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = "NAME"
	}
	says := func(text string) bool { return strings.Contains(why, text) }
	switch {
	case plain && says("error reading server preface"): // closed, or answered with something else
		e.Why, e.unanswered = "what listens there is no engine that takes unencrypted connections", true
	case says("does not look like a TLS handshake"):
		e.Why, e.hint = "the engine does not speak TLS", "--insecure goes without: others can then read and change what is sent"
	case says("certificate is valid for"), says("certificate is not valid for any names"), says("doesn't contain any IP SANs"):
		e.hint = fmt.Sprintf("certificates are for the names of endoscoped init --host; with this one there: --host %s", host)
	case says("signed by unknown authority"):
		e.hint = "--ca FILE, with the ca.pem that endoscoped init made there"
	case says("tls: unknown certificate authority"):
		e.Why, e.hint = "the certificate is of another installation", "--cert FILE, with a certificate that endoscoped cert USER made there"
	case says("certificate required"):
		e.hint = "--cert FILE, with a certificate that endoscoped cert USER made there"
	}
	return e
}

// explain finds out why a server takes no new connection: see withTLS and refused.
func (e *Engine) explain(ctx context.Context, err error) error {
	var gone *LostError
	if !errors.As(err, &gone) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	if gone.unanswered {
		return e.withTLS(ctx, gone)
	}
	return e.refused(ctx, gone, err)
}

// withTLS tells an engine that speaks TLS from another server, neither of which answers
// as an engine does where nothing is encrypted. Nothing is sent but a greeting.
func (e *Engine) withTLS(ctx context.Context, gone *LostError) error {
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}).DialContext(ctx, "tcp", e.addr)
	var alert tls.AlertError
	switch {
	case err == nil:
		_ = conn.Close()
	case !errors.As(err, &alert):
		gone.Why, gone.hint = "what listens there is no engine", "--connect takes what endoscoped --listen has there"
		return gone
	}
	gone.Why, gone.hint = "it takes no unencrypted connection: the engine speaks TLS", "--ca FILE, with the ca.pem that endoscoped init made there"
	return gone
}

// refused finds out why a server closes new encrypted connections. With TLS 1.3 it
// refuses a client's certificate, or that there is none, after the handshake, and
// who is writing by then may hear of the closed connection before the reason.
func (e *Engine) refused(ctx context.Context, gone *LostError, err error) error {
	closed := func(text string) bool { return strings.Contains(gone.Why, text) }
	if e.tls == nil || !closed("broken pipe") && !closed("connection reset") && !closed("EOF") {
		return err
	}
	conn, dialled := (&tls.Dialer{Config: e.tls}).DialContext(ctx, "tcp", e.addr)
	if dialled != nil {
		return lost(e.addr, dialled.Error(), false)
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetReadDeadline(deadline)
	if _, said := conn.Read(make([]byte, 1)); said != nil && strings.Contains(said.Error(), "tls: ") {
		return lost(e.addr, said.Error(), false)
	}
	return err
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
