package container

import (
	"context"
	"os"
	"strings"
)

// runtime lists the containers that run, by id.
type runtime interface {
	list(ctx context.Context) (map[string]*Container, error)
	close()
}

// endpointID identifies a runtime.
type endpointID struct{ kind, socket string }

func (e endpointID) String() string { return e.kind + " at " + e.socket }

// endpoint is where a runtime listens.
type endpoint struct {
	endpointID
	open     func(socket string) runtime
	variable string // environment variable that names another socket, as unix://; "": none
}

// known are the sockets of runtimes, and the variables by which their own tools are told of
// others.
var known = []endpoint{
	{endpointID{"CRI", "/run/containerd/containerd.sock"}, newCRI, "CONTAINER_RUNTIME_ENDPOINT"},
	{endpointID{"CRI", "/run/crio/crio.sock"}, newCRI, ""},
	{endpointID{"CRI", "/run/k3s/containerd/containerd.sock"}, newCRI, ""},
	{endpointID{"Docker", "/run/docker.sock"}, newHTTP, "DOCKER_HOST"},
	{endpointID{"Podman", "/run/podman/podman.sock"}, newHTTP, "CONTAINER_HOST"},
}

// present returns the endpoints whose socket exists.
func present() (out []endpoint) {
	for _, e := range known {
		if named, ok := strings.CutPrefix(os.Getenv(e.variable), "unix://"); ok {
			e.socket = named
		}
		if st, err := os.Stat(e.socket); err == nil && st.Mode()&os.ModeSocket != 0 {
			out = append(out, e)
		}
	}
	return out
}
