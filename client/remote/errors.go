package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"endoscope/parser"
	"endoscope/server/wire"
)

// errorOf converts the error of a call to the user's form. A refusal becomes the
// server's *parser.Error, and a lost connection a *LostError. statement is the text
// that was sent.
func (s *session) errorOf(err error, statement string) error {
	if err == io.EOF { // the server ended a call without its answer
		return lost(s.addr, "it ended the connection", s.plain)
	}
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return wire.Broken(err)
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

// LostError is the error of a failed connection to the server.
type LostError struct {
	Addr string
	Why  string
	hint string // advice to the user
	// unanswered: unencrypted, and no valid answer of an engine was received.
	unanswered bool
}

// Hint returns advice to the user; "" if there is none.
func (e *LostError) Hint() string { return e.hint }

// lost returns the error of a connection that failed because of why, with advice if
// the two sides disagree on encryption. plain: unencrypted TCP.
func lost(addr, why string, plain bool) *LostError {
	e := &LostError{Addr: addr, Why: why}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = "NAME"
	}
	contains := func(text string) bool { return strings.Contains(why, text) }
	switch {
	case plain && contains("error reading server preface"): // closed, or answered by another protocol
		e.Why, e.unanswered = "the server there is not an engine that accepts unencrypted connections", true
	case contains("does not look like a TLS handshake"):
		e.Why, e.hint = "the engine does not speak TLS", "--insecure connects without encryption: others can read and change the traffic"
	case contains("certificate is valid for"), contains("certificate is not valid for any names"), contains("doesn't contain any IP SANs"):
		e.hint = fmt.Sprintf("the certificate is for the names given to endoscoped init --host; add --host %s there", host)
	case contains("signed by unknown authority"):
		e.hint = "--ca FILE, with the ca.pem that endoscoped init made there"
	case contains("tls: unknown certificate authority"):
		e.Why, e.hint = "the certificate belongs to another installation", "--cert FILE, with a certificate that endoscoped cert USER made there"
	case contains("certificate required"):
		e.hint = "--cert FILE, with a certificate that endoscoped cert USER made there"
	}
	return e
}

// explain determines why a server does not accept a new connection; see withTLS and
// refused.
func (e *Engine) explain(ctx context.Context, err error) error {
	var failed *LostError
	if !errors.As(err, &failed) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	if failed.unanswered {
		return e.withTLS(ctx, failed)
	}
	return e.refused(ctx, failed, err)
}

// withTLS distinguishes an engine that requires TLS from another kind of server,
// since neither answers an unencrypted connection as an engine does. It only performs
// a TLS handshake.
func (e *Engine) withTLS(ctx context.Context, failed *LostError) error {
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}).DialContext(ctx, "tcp", e.addr)
	var alert tls.AlertError
	switch {
	case err == nil:
		_ = conn.Close()
	case !errors.As(err, &alert):
		failed.Why, failed.hint = "the server there is not an engine", "--connect needs the address of endoscoped --listen"
		return failed
	}
	failed.Why, failed.hint = "unencrypted connections are refused: the engine speaks TLS", "--ca FILE, with the ca.pem that endoscoped init made there"
	return failed
}

// refused determines why a server closes new encrypted connections. With TLS 1.3 the
// server rejects a client's certificate, or its absence, after the handshake. A
// client that is writing at that moment may see the closed connection before the
// reason.
func (e *Engine) refused(ctx context.Context, failed *LostError, err error) error {
	closed := func(text string) bool { return strings.Contains(failed.Why, text) }
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
	if _, readErr := conn.Read(make([]byte, 1)); readErr != nil && strings.Contains(readErr.Error(), "tls: ") {
		return lost(e.addr, readErr.Error(), false)
	}
	return err
}

// Lost reports that the engine is not reachable, for callers that do not import this
// package.
func (e *LostError) Lost() bool { return true }

func (e *LostError) Error() string {
	return fmt.Sprintf("no connection to the engine at %s: %s", e.Addr, e.Why)
}

// refusal restores the *parser.Error of a statement; see wire.RefusalDomain.
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

// reason returns the last part of gRPC's message for a failed connection: the
// system's own message.
func reason(text string) string {
	for _, before := range []string{"Error while dialing: ", "authentication handshake failed: ", "desc = "} {
		if i := strings.LastIndex(text, before); i >= 0 {
			return strings.Trim(text[i+len(before):], `"`)
		}
	}
	return text
}
