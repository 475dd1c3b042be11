package container

import "context"

// Runtime lists the containers that run, by id.
type Runtime interface {
	List(ctx context.Context) (map[string]*Container, error)
	Close()
}

// EndpointID identifies a runtime.
type EndpointID struct{ Kind, Socket string }

func (e EndpointID) String() string { return e.Kind + " at " + e.Socket }

// Endpoint is where a runtime listens.
type Endpoint struct {
	ID   EndpointID
	Open func(socket string) Runtime // connects with the first call
}
