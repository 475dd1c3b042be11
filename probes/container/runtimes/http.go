package runtimes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"endoscope/probes/container"
)

// httpRuntime is Docker or Podman.
type httpRuntime struct{ client http.Client }

func newHTTP(socket string) container.Runtime {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &httpRuntime{http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConns: 1}}}
}

// Close closes idle connections.
func (r *httpRuntime) Close() { r.client.CloseIdleConnections() }

// maxAnswer is the maximum size of a list of containers.
const maxAnswer = 64 << 20

// Labels that the kubelet's shim gives to containers of Docker.
const (
	podLabel       = "io.kubernetes.pod.name"
	namespaceLabel = "io.kubernetes.pod.namespace"
	nameLabel      = "io.kubernetes.container.name"
)

// List asks Podman's own interface, which knows pods, or else Docker's.
func (r *httpRuntime) List(ctx context.Context) (map[string]*container.Container, error) {
	var all []struct {
		ID      string `json:"Id"`
		Names   []string
		Labels  map[string]string
		PodName string
	}
	err := r.get(ctx, "/v4.0.0/libpod/containers/json", &all)
	if err != nil {
		if err = r.get(ctx, "/containers/json", &all); err != nil {
			return nil, err
		}
	}
	out := map[string]*container.Container{}
	for _, c := range all {
		found := &container.Container{Pod: c.PodName, Labels: c.Labels}
		if len(c.Names) > 0 {
			found.Name = strings.TrimPrefix(c.Names[0], "/")
		}
		if name := c.Labels[nameLabel]; name != "" {
			found.Name, found.Pod, found.Namespace = name, c.Labels[podLabel], c.Labels[namespaceLabel]
		}
		out[c.ID] = found
	}
	return out, nil
}

func (r *httpRuntime) get(ctx context.Context, path string, to any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://runtime"+path, nil)
	if err != nil {
		return err
	}
	answer, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(to)
}
