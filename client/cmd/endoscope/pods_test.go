package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"endoscope/planner/catalog"
	"endoscope/probes/debugregister"
	"endoscope/probes/testenv"
)

// kubelet makes pods in a containerd of its own, as a kubelet does.
type kubelet struct {
	*containment
	env    []string
	client cri.RuntimeServiceClient
}

// containerdConfig has an image of ours for the pause containers, since there is no registry,
// and makes no networks.
const containerdConfig = `version = 2
root = "%[1]s/root"
state = "%[1]s/state"
[grpc]
  address = "%[1]s/cri.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/contained:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[1]s/cni"
    conf_dir = "%[1]s/cni"
`

func newKubelet(c *containment) *kubelet {
	p := newPodman(c) // makes the image
	dir := filepath.Join(c.dir, "cd")
	config := filepath.Join(c.dir, "containerd.toml")
	if err := os.Mkdir(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, containerdConfig, dir), 0o666); err != nil {
		c.t.Fatal(err)
	}
	image := filepath.Join(c.dir, "saved.tar")
	p.run("save", "-o", image, "localhost/contained:1")
	socket := filepath.Join(dir, "cri.sock")
	c.background(nil, "containerd", "--config", config)
	testenv.UntilNil(c.t, "containerd has the image", func() error {
		out, errs, code := run(c.t, testenv.NeedProgram(c.t, "ctr"), "-a", socket, "-n", "k8s.io", "images", "import", image)
		if code != 0 {
			return fmt.Errorf("%s%s", out, errs)
		}
		return nil
	})
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.t.Fatal(err)
	}
	k := &kubelet{containment: c, env: []string{"CONTAINER_RUNTIME_ENDPOINT=unix://" + socket}, client: cri.NewRuntimeServiceClient(conn)}
	c.t.Cleanup(func() {
		pods, _ := k.client.ListPodSandbox(context.Background(), &cri.ListPodSandboxRequest{})
		for _, pod := range pods.GetItems() {
			k.client.StopPodSandbox(context.Background(), &cri.StopPodSandboxRequest{PodSandboxId: pod.Id})
			k.client.RemovePodSandbox(context.Background(), &cri.RemovePodSandboxRequest{PodSandboxId: pod.Id})
		}
		conn.Close()
	})
	return k
}

// pod is a pod of which the test starts the containers.
type pod struct {
	*kubelet
	id     string
	config *cri.PodSandboxConfig
}

// do returns what a call returned, or fails the test.
func do[Q, A any](k *kubelet, call func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) A {
	k.t.Helper()
	a, err := call(context.Background(), request)
	if err != nil {
		k.t.Fatalf("%T: %v", request, err)
	}
	return a
}

func (k *kubelet) pod(name string, labels map[string]string, pids cri.NamespaceMode) *pod {
	k.t.Helper()
	host := &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: pids}
	p := &pod{kubelet: k, config: &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: "shop", Uid: "uid-" + name},
		Labels:       labels,
		LogDirectory: k.dir,
		Linux: &cri.LinuxPodSandboxConfig{CgroupParent: "/kubepods/pod" + name,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: host}},
	}}
	p.id = do(k, k.client.RunPodSandbox, &cri.RunPodSandboxRequest{Config: p.config}).PodSandboxId
	return p
}

// start starts a container, for the attempt-th time, and returns its id.
func (p *pod) start(name string, attempt uint32, change ...func(*cri.ContainerConfig)) string {
	p.t.Helper()
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &cri.ImageSpec{Image: "localhost/contained:1"},
		Command:  []string{"/contained", name},
		Mounts:   []*cri.Mount{{HostPath: p.log, ContainerPath: "/log"}},
		Linux:    &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}}},
	}
	for _, f := range change {
		f(config)
	}
	id := do(p.kubelet, p.client.CreateContainer, &cri.CreateContainerRequest{PodSandboxId: p.id, Config: config, SandboxConfig: p.config}).ContainerId
	do(p.kubelet, p.client.StartContainer, &cri.StartContainerRequest{ContainerId: id})
	return id
}

func (p *pod) stop(ids ...string) {
	p.t.Helper()
	for _, id := range ids {
		do(p.kubelet, p.client.StopContainer, &cri.StopContainerRequest{ContainerId: id, Timeout: 60})
	}
}

// A pod of two containers, one of which is restarted: queries by container, pod, namespace and
// label count what the programs log.
func TestPods(t *testing.T) {
	c := newContainment(t)
	k := newKubelet(c)
	shop := k.pod("shop-1", map[string]string{"app": "shop"}, cri.NamespaceMode_CONTAINER)
	other := k.pod("other-1", map[string]string{"app": "other"}, cri.NamespaceMode_CONTAINER)
	web, side := shop.start("web", 0), shop.start("side", 0)
	away := other.start("away", 0)

	byContainer := c.count(k.env, "AND container = 'web'")
	byPod := c.count(k.env, "AND pod = 'shop-1'")
	byLabel := c.count(k.env, "AND label('app') = 'shop' AND namespace = 'shop'")
	c.begin()
	byContainer.reaches(200)
	shop.stop(web)
	first := c.total("web", 1)
	again := shop.start("web", 1)
	byContainer.reaches(first + 200)
	shop.stop(again, side)
	other.stop(away)

	webs, sides := c.total("web", 2), c.total("side", 1)
	c.total("away", 1)
	byContainer.reaches(webs)
	byPod.reaches(webs + sides)
	byLabel.reaches(webs + sides)
	byContainer.end(map[string]any{"calls": webs, "processes": 2, "container": "web", "pod": "shop-1", "namespace": "shop", "app": "shop"})
	byPod.end(map[string]any{"calls": webs + sides, "processes": 3, "container": "side", "pod": "shop-1"})
	byLabel.end(map[string]any{"calls": webs + sides, "processes": 3, "app": "shop"})

	out, errs, _ := run(t, append(append([]string{"env"}, k.env...), c.endo, "--format", "csv", "-c", "SHOW CONTAINERS")...)
	for _, want := range []string{"shop-1,", "/kubepods/podshop-1/", "other-1,"} { // the pause containers of the pods
		if !strings.Contains(out, want) {
			t.Errorf("SHOW CONTAINERS has no %s:\n%s%s", want, out, errs)
		}
	}
}

// inside runs a command in a container.
func (k *kubelet) inside(id string, command ...string) (stdout, stderr string, code int32) {
	k.t.Helper()
	a := do(k, k.client.ExecSync, &cri.ExecSyncRequest{ContainerId: id, Cmd: command})
	return string(a.Stdout), string(a.Stderr), a.ExitCode
}

// Endoscope in a pod with the capabilities of the manual's DaemonSet observes another pod. In
// a pod with its own PID namespace it says what does not work.
func TestEndoscopeInPod(t *testing.T) {
	c := newContainment(t)
	k := newKubelet(c)
	shop := k.pod("shop-1", map[string]string{"app": "shop"}, cri.NamespaceMode_CONTAINER)
	web := shop.start("web", 0)
	c.begin()

	start := func(name string, pids cri.NamespaceMode) string {
		return k.pod(name, nil, pids).start(name, 0, func(config *cri.ContainerConfig) {
			config.Command = []string{"/contained"} // it only waits
			config.Mounts = append(config.Mounts,
				&cri.Mount{HostPath: filepath.Dir(c.endo), ContainerPath: "/opt", Readonly: true},
				&cri.Mount{HostPath: "/usr/lib", ContainerPath: "/usr/lib", Readonly: true}, // for its C library
				&cri.Mount{HostPath: "/lib", ContainerPath: "/lib", Readonly: true},
				&cri.Mount{HostPath: "/lib64", ContainerPath: "/lib64", Readonly: true},
				&cri.Mount{HostPath: filepath.Join(c.dir, "cd"), ContainerPath: "/run/containerd"})
			config.Envs = []*cri.KeyValue{{Key: "CONTAINER_RUNTIME_ENDPOINT", Value: []byte("unix:///run/containerd/cri.sock")}}
			config.Linux.SecurityContext = &cri.LinuxContainerSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: pids},
				Capabilities:     &cri.Capability{DropCapabilities: []string{"ALL"}, AddCapabilities: []string{"BPF", "PERFMON", "SYS_PTRACE"}},
				Seccomp:          &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined},
				ReadonlyRootfs:   true,
			}
		})
	}
	endoscope := "/opt/" + filepath.Base(c.endo)
	checksOf := func(id string) map[string]checkRow {
		t.Helper()
		out, errs, _ := k.inside(id, endoscope, "doctor", "--json")
		var rows []checkRow
		if err := json.Unmarshal([]byte(out), &rows); err != nil {
			t.Fatalf("%v\n%s%s", err, out, errs)
		}
		found := map[string]checkRow{}
		for _, r := range rows {
			found[r.Name] = r
		}
		return found
	}

	machine := start("machine", cri.NamespaceMode_NODE)
	for name, r := range checksOf(machine) {
		works := name != catalog.VariableValue || debugregister.Fire()
		if r.Kind == "stream" && (r.Verdict == "ok") != works {
			t.Errorf("%s: %+v", name, r)
		}
	}
	out, errs, code := k.inside(machine, endoscope, "--format", "csv", "-c",
		"SELECT arg0, container, pod FROM function_start WHERE container = 'web' AND function_name = 'handle' LIMIT 100")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 101 || lines[0] != "arg0,container,pod" {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	first := -1
	for i, line := range lines[1:] {
		n, where, _ := strings.Cut(line, ",")
		at, err := strconv.Atoi(n)
		if first < 0 {
			first = at
		}
		if err != nil || at != first+i || where != "web,shop-1" {
			t.Fatalf("row %d is %q, want call %d\n%s", i, line, first+i, out)
		}
	}

	own := start("own", cri.NamespaceMode_CONTAINER)
	found := checksOf(own)
	if found["PID namespace"].Verdict != "no" || !strings.Contains(found["PID namespace"].Remedy, "hostPID: true") ||
		found["function_start"].Verdict != "no" || found["stack_sample"].Verdict != "no" || found["process_usage"].Verdict != "ok" {
		t.Errorf("%+v", found)
	}
	shop.stop(web, machine, own)
}
