package flight

import (
	"context"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"endoscope/server/wire"
)

// userKey is the key of the context value that identified calls have.
type userKey struct{}

// caller returns the caller; nil: the user that the process runs as.
func caller(ctx context.Context) *wire.User {
	u, _ := ctx.Value(userKey{}).(*wire.User)
	return u
}

func (s *Service) identify(ctx context.Context) (context.Context, error) {
	if s.o.Access != nil {
		u, err := s.o.Access.Identify(ctx)
		if err != nil {
			return nil, err
		}
		ctx = context.WithValue(ctx, userKey{}, u)
	}
	if c, ok := ctx.Value(connKey{}).(*conn); ok && c.peer != nil {
		c.peer.identified()
	}
	return ctx, nil
}

// survive converts a panic to an error: a client's message must not end the
// server.
func (s *Service) survive(method string, err *error) {
	if r := recover(); r != nil {
		s.o.Log.Error("a call failed by an internal error", "method", method, "panic", r, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error of the server; its log has the details")
	}
}

func (s *Service) identifyUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
	defer s.survive(info.FullMethod, &err)
	ctx, err = s.identify(ctx)
	if err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (s *Service) identifyStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer s.survive(info.FullMethod, &err)
	ctx, err := s.identify(stream.Context())
	if err != nil {
		return err
	}
	return next(srv, &identified{stream, ctx})
}

// identified is a call with an identified caller.
type identified struct {
	grpc.ServerStream
	ctx context.Context
}

func (i *identified) Context() context.Context { return i.ctx }
