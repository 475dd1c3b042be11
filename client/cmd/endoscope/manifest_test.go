package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"endoscope/client/help"
	"endoscope/probes/testenv"
)

// manifest is what a kubelet makes a container of.
type manifest struct {
	Spec struct {
		Template struct {
			Spec struct {
				HostPID    bool `yaml:"hostPID"`
				Containers []struct {
					Command []string
					Env     []struct{ Name, Value string }
					Context struct {
						User         int64 `yaml:"runAsUser"`
						ReadOnly     bool  `yaml:"readOnlyRootFilesystem"`
						Capabilities struct{ Drop, Add []string }
						Seccomp      struct{ Type string } `yaml:"seccompProfile"`
					} `yaml:"securityContext"`
					Mounts []struct {
						Name     string
						Path     string `yaml:"mountPath"`
						ReadOnly bool   `yaml:"readOnly"`
					} `yaml:"volumeMounts"`
				}
			}
		}
	}
}

// The DaemonSet of the manual, run as a kubelet would, observes a pod for a client on the
// machine.
func TestManifest(t *testing.T) {
	c := newContainment(t)
	k := newKubelet(c)
	shop := k.pod("shop-1", map[string]string{"app": "shop"}, cri.NamespaceMode_CONTAINER)
	web := shop.start("web", 0)

	page, err := help.Find("containers")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(page, "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	var m manifest
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	of := m.Spec.Template.Spec.Containers[0]

	volumes := map[string]string{"runtime": filepath.Join(c.dir, "cd"), "endoscope": filepath.Join(c.dir, "socket"), "users": filepath.Join(c.dir, "users")}
	for _, dir := range []string{volumes["endoscope"], volumes["users"]} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(volumes["users"], "users"), []byte("locals none\nuser root\n unix 0\n role admin\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	daemon := testenv.Command(t, "../../../server/cmd/endoscoped")
	pids := cri.NamespaceMode_CONTAINER
	if m.Spec.Template.Spec.HostPID {
		pids = cri.NamespaceMode_NODE
	}
	id := k.pod("endoscoped", nil, pids).start("endoscoped", 0, func(config *cri.ContainerConfig) {
		config.Command = of.Command
		config.Mounts = []*cri.Mount{ // in place of an image of its own
			{HostPath: daemon, ContainerPath: "/endoscoped", Readonly: true},
			{HostPath: "/usr/lib", ContainerPath: "/usr/lib", Readonly: true}, // its C library
			{HostPath: "/lib", ContainerPath: "/lib", Readonly: true},
			{HostPath: "/lib64", ContainerPath: "/lib64", Readonly: true},
		}
		for _, mount := range of.Mounts {
			config.Mounts = append(config.Mounts, &cri.Mount{HostPath: volumes[mount.Name], ContainerPath: mount.Path, Readonly: mount.ReadOnly})
		}
		for _, env := range of.Env {
			value := strings.ReplaceAll(env.Value, "containerd.sock", "cri.sock")
			config.Envs = append(config.Envs, &cri.KeyValue{Key: env.Name, Value: []byte(value)})
		}
		seccomp := cri.SecurityProfile_ProfileType(cri.SecurityProfile_ProfileType_value[of.Context.Seccomp.Type])
		config.LogPath = "endoscoped.log"
		config.Linux.SecurityContext = &cri.LinuxContainerSecurityContext{
			NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: pids},
			RunAsUser:        &cri.Int64Value{Value: of.Context.User},
			ReadonlyRootfs:   of.Context.ReadOnly,
			Capabilities:     &cri.Capability{DropCapabilities: of.Context.Capabilities.Drop, AddCapabilities: of.Context.Capabilities.Add},
			Seccomp:          &cri.SecurityProfile{ProfileType: seccomp},
		}
	})
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(c.dir, "endoscoped.log"))
			t.Logf("%s", text)
		}
	})
	socket := filepath.Join(volumes["endoscope"], "endoscope.sock")
	testenv.UntilNil(t, "the daemon listens", func() error {
		status := do(k, k.client.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id}).Status
		if status.State != cri.ContainerState_CONTAINER_RUNNING {
			t.Fatalf("the daemon has ended: %v", status)
		}
		_, err := os.Stat(socket)
		return err
	})

	c.connect = []string{"--connect", "unix:" + socket}
	q := c.count(nil, "AND container = 'web'")
	c.begin()
	q.reaches(200)
	shop.stop(web)
	calls := c.total("web", 1)
	q.reaches(calls)
	q.end(map[string]any{"calls": calls, "processes": 1, "container": "web", "pod": "shop-1", "namespace": "shop", "app": "shop"})
	shop.stop(id)
	status := do(k, k.client.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id}).Status
	if status.ExitCode != 0 {
		t.Errorf("endoscoped ends with %d: %s", status.ExitCode, status.Message)
	}
}
