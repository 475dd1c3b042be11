package container

import (
	"strings"
	"testing"
)

func TestIDOfCgroup(t *testing.T) {
	id := strings.Repeat("0a", 32)
	for cgroup, want := range map[string]string{
		"/":                                     "",
		"/user.slice/user-0.slice":              "",
		"/docker/" + id:                         id,
		"/system.slice/docker-" + id + ".scope": id,
		"/libpod_parent/libpod-" + id:           id,
		"/machine.slice/libpod-" + id + ".scope/container":                          id,
		"/machine.slice/libpod-conmon-" + id + ".scope":                             "",
		"/kubepods/besteffort/pod1/" + id:                                           id,
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope":       id,
		"/kubepods.slice/kubepods-pod1.slice/crio-" + id + ".scope":                 id,
		"/kubepods.slice/kubepods-pod1.slice/crio-conmon-" + id + ".scope":          "",
		"/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:" + id: id,
		"/../../kubepods/pod1/" + id:                                                id,
		"/docker/" + strings.Repeat("1b", 32) + "/docker/" + id:                     id,
		"/docker/" + id[:63]: "",
	} {
		if got := idOf(cgroup); got != want {
			t.Errorf("%s: %q, want %q", cgroup, got, want)
		}
	}
}
