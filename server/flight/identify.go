package flight

import (
	"context"

	"google.golang.org/grpc"

	"endoscope/server/wire"
)

// userKey is of the context value that identified calls have.
type userKey struct{}

// caller is who makes a call; nil: the user that the process runs as.
func caller(ctx context.Context) *wire.User {
	u, _ := ctx.Value(userKey{}).(*wire.User)
	return u
}

func (s *Service) identify(ctx context.Context) (context.Context, error) {
	if s.o.Access == nil {
		return ctx, nil
	}
	u, err := s.o.Access.Identify(ctx)
	if err != nil {
		return nil, err
	}
	return context.WithValue(ctx, userKey{}, u), nil
}

func (s *Service) identifyUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx, err := s.identify(ctx)
	if err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (s *Service) identifyStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, err := s.identify(stream.Context())
	if err != nil {
		return err
	}
	return next(srv, &identified{stream, ctx})
}

// identified is a call of which the caller is known.
type identified struct {
	grpc.ServerStream
	ctx context.Context
}

func (i *identified) Context() context.Context { return i.ctx }
