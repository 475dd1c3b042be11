package runtimes

import (
	"os"
	"strings"

	"endoscope/probes/container"
)

// known are the sockets of runtimes, and the environment variables that name another one, as
// unix://, to the runtimes' own tools; "": none.
var known = []struct {
	kind, socket string
	open         func(socket string) container.Runtime
	variable     string
}{
	{"CRI", "/run/containerd/containerd.sock", newCRI, "CONTAINER_RUNTIME_ENDPOINT"},
	{"CRI", "/run/crio/crio.sock", newCRI, ""},
	{"CRI", "/run/k3s/containerd/containerd.sock", newCRI, ""},
	{"Docker", "/run/docker.sock", newHTTP, "DOCKER_HOST"},
	{"Podman", "/run/podman/podman.sock", newHTTP, "CONTAINER_HOST"},
}

// Present returns the runtimes of this machine whose socket exists.
func Present() (out []container.Endpoint) {
	for _, e := range known {
		if named, ok := strings.CutPrefix(os.Getenv(e.variable), "unix://"); ok {
			e.socket = named
		}
		if st, err := os.Stat(e.socket); err == nil && st.Mode()&os.ModeSocket != 0 {
			out = append(out, container.Endpoint{ID: container.EndpointID{Kind: e.kind, Socket: e.socket}, Open: e.open})
		}
	}
	return out
}
