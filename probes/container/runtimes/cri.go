package runtimes

import (
	"context"
	"maps"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"endoscope/probes/container"
)

// criRuntime is a runtime of Kubernetes. It connects with the first call.
type criRuntime struct {
	conn *grpc.ClientConn
	err  error
}

func newCRI(socket string) container.Runtime {
	var r criRuntime
	r.conn, r.err = grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	return &r
}

// Close closes the connection.
func (r *criRuntime) Close() {
	if r.conn != nil {
		_ = r.conn.Close()
	}
}

// List returns the containers, and the pause containers of their pods, which are called by
// their pods.
func (r *criRuntime) List(ctx context.Context) (map[string]*container.Container, error) {
	if r.err != nil {
		return nil, r.err
	}
	client := cri.NewRuntimeServiceClient(r.conn)
	pods, err := client.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	containers, err := client.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	out := map[string]*container.Container{}
	byID := map[string]*cri.PodSandbox{}
	for _, p := range pods.Items {
		byID[p.Id] = p
		m := p.GetMetadata()
		out[p.Id] = &container.Container{Name: m.GetName(), Pod: m.GetName(), Namespace: m.GetNamespace(), Labels: p.Labels}
	}
	for _, c := range containers.Containers {
		pod := byID[c.PodSandboxId]
		m := pod.GetMetadata()
		out[c.Id] = &container.Container{Name: c.GetMetadata().GetName(), Pod: m.GetName(), Namespace: m.GetNamespace(), Labels: merged(pod.GetLabels(), c.Labels)}
	}
	return out, nil
}

// merged joins the labels of a pod with those of its container.
func merged(pod, own map[string]string) map[string]string {
	all := maps.Clone(pod)
	if all == nil {
		return own
	}
	maps.Copy(all, own)
	return all
}
