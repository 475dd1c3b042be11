package runtimes

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"endoscope/planner/plan"
	"endoscope/probes/container"
)

var ids = []string{strings.Repeat("0a", 32), strings.Repeat("1b", 32), strings.Repeat("2c", 32), strings.Repeat("3d", 32)}

// fakeCRI is a runtime of one pod.
type fakeCRI struct {
	cri.UnimplementedRuntimeServiceServer
	asked int
	web   string // id of the container
}

func (f *fakeCRI) ListPodSandbox(context.Context, *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	f.asked++
	return &cri.ListPodSandboxResponse{Items: []*cri.PodSandbox{{Id: ids[0], Labels: map[string]string{"app": "shop", "tier": "1"},
		Metadata: &cri.PodSandboxMetadata{Name: "shop-1", Namespace: "prod"}}}}, nil
}

func (f *fakeCRI) ListContainers(context.Context, *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	return &cri.ListContainersResponse{Containers: []*cri.Container{{Id: f.web, PodSandboxId: ids[0],
		Metadata: &cri.ContainerMetadata{Name: "web"}, Labels: map[string]string{"tier": "2"}}}}, nil
}

// serve listens on a socket until the end of the test.
func serve(t *testing.T, name string) (net.Listener, string) {
	dir, err := os.MkdirTemp("", "runtime") // a socket has a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, name)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return l, socket
}

// A directory asks for a container once, knows restarted ones, and says which runtimes answer.
func TestDirectory(t *testing.T) {
	l, socket := serve(t, "cri")
	fake := &fakeCRI{web: ids[1]}
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, fake)
	go server.Serve(l)
	t.Cleanup(server.Stop)

	hl, hsocket := serve(t, "docker")
	mux := http.NewServeMux()
	mux.HandleFunc("/containers/json", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode([]map[string]any{{"Id": ids[2], "Names": []string{"/db"}, "Labels": map[string]string{"app": "db"}}})
	})
	docker := &http.Server{Handler: mux}
	go docker.Serve(hl)
	t.Cleanup(func() { docker.Close() })

	endpoints := []container.Endpoint{{ID: container.EndpointID{Kind: "CRI", Socket: socket}, Open: newCRI}, {ID: container.EndpointID{Kind: "Docker", Socket: hsocket}, Open: newHTTP}}
	d := container.New(func() []container.Endpoint { return endpoints })
	is := func(cgroup, want string) {
		t.Helper()
		c := d.Find(cgroup)
		var got []string
		for _, column := range append(slices.Clone(container.Columns), plan.LabelPrefix+"app") {
			got = append(got, c.Get(column))
		}
		if text := strings.Join(got, "|"); text != want {
			t.Errorf("%s: %s, want %s", cgroup, text, want)
		}
	}
	is("/", "/|/||||")
	if fake.asked != 0 {
		t.Error("a group without a container was asked for")
	}
	web := "/pods/" + ids[1]
	is(web, "web|"+web+`|shop-1|prod|{"app":"shop","tier":"2"}|shop`)
	is(web, "web|"+web+`|shop-1|prod|{"app":"shop","tier":"2"}|shop`)
	is("/docker/"+ids[2], "db|/docker/"+ids[2]+`|||{"app":"db"}|db`)
	is("/pods/"+ids[0], "shop-1|/pods/"+ids[0]+`|shop-1|prod|{"app":"shop","tier":"1"}|shop`)
	if fake.asked != 1 {
		t.Errorf("the runtimes were asked %d times", fake.asked)
	}
	fake.web = ids[3] // restarted
	is("/pods/"+ids[3], "web|/pods/"+ids[3]+`|shop-1|prod|{"app":"shop","tier":"2"}|shop`)
	if !d.Find(web).Is(plan.ContainerIs{Column: container.ByPod, Value: "shop-1"}) || d.Find("/").Is(plan.ContainerIs{Column: container.ByPod}) {
		t.Error("conditions")
	}
	if n := len(d.All()); n != 3 {
		t.Errorf("%d containers", n)
	}
	answering, err := d.Runtimes()
	if want := []string{"CRI at " + socket, "Docker at " + hsocket}; err != nil || !slices.Equal(answering, want) {
		t.Errorf("%v, %v", answering, err)
	}
	docker.Close()
	if answering, err = d.Runtimes(); len(answering) != 1 || err == nil || !strings.Contains(err.Error(), "Docker at "+hsocket) {
		t.Errorf("%v, %v", answering, err)
	}
	endpoints = nil
	unknown := "/pods/" + strings.Repeat("4e", 32)
	is(unknown, strings.Repeat("4e", 32)+"|"+unknown+"||||")
	if answering, err = d.Runtimes(); len(answering) != 0 || err != nil {
		t.Errorf("%v, %v", answering, err)
	}
}

// The variables of the runtimes' own tools name their sockets.
func TestEndpoints(t *testing.T) {
	_, socket := serve(t, "podman")
	t.Setenv("CONTAINER_HOST", "unix://"+socket)
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1") // no socket: the usual one is tried
	if !slices.ContainsFunc(Present(), func(e container.Endpoint) bool { return e.ID.Socket == socket && e.ID.Kind == "Podman" }) {
		t.Errorf("%v", Present())
	}
	if _, err := os.Stat("/run/docker.sock"); errors.Is(err, os.ErrNotExist) && slices.ContainsFunc(Present(), func(e container.Endpoint) bool { return e.ID.Kind == "Docker" }) {
		t.Errorf("%v", Present())
	}
}
