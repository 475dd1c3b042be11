package container

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"endoscope/planner/plan"
)

// Container is what is known of a container. It is immutable.
type Container struct {
	Cgroup    string // path of the control group; "/": no container
	ID        string // "": none in the path
	Name      string // "": no runtime knows it
	Pod       string // "": none
	Namespace string // of the pod
	Labels    map[string]string
	labels    string // as JSON
}

// Names of the columns of containers. A target chooses by all but the last, and by labels
// (plan.LabelPrefix).
const (
	ByName      = "container"
	ByCgroup    = "cgroup"
	ByPod       = "pod"
	ByNamespace = "namespace"
	AllLabels   = "labels"
)

// Columns are the names of all columns.
var Columns = []string{ByName, ByCgroup, ByPod, ByNamespace, AllLabels}

// Called returns by what the container is called: its name, else its id, else its group.
func (c *Container) Called() string { return cmp.Or(c.Name, c.ID, c.Cgroup) }

// Get returns the value of a column; "": none.
func (c *Container) Get(column string) string {
	switch column {
	case ByName:
		return c.Called()
	case ByCgroup:
		return c.Cgroup
	case ByPod:
		return c.Pod
	case ByNamespace:
		return c.Namespace
	case AllLabels:
		return c.labels
	}
	if label, ok := strings.CutPrefix(column, plan.LabelPrefix); ok {
		return c.Labels[label]
	}
	return ""
}

// Is reports whether a condition holds.
func (c *Container) Is(x plan.ContainerIs) bool { return x.Value != "" && c.Get(x.Column) == x.Value }

// encode sets the text of the labels.
func (c *Container) encode() {
	if len(c.Labels) > 0 {
		text, _ := json.Marshal(c.Labels) // sorted by name
		c.labels = string(text)
	}
}

// numbered matches the folder of a container: its id, alone or in the name of a scope of
// systemd, such as cri-containerd-0123….scope. Podman and CRI-O have a second group for the
// process that watches a container, libpod-conmon-0123….
var numbered = regexp.MustCompile(`^(?:.*[-:])?([0-9a-f]{64})(?:\.scope)?$`)

// idOf returns the id of the innermost container of a control group; "" if there is none.
func idOf(cgroup string) string {
	for _, folder := range slices.Backward(strings.Split(cgroup, "/")) {
		if m := numbered.FindStringSubmatch(folder); m != nil && !strings.Contains(folder, "conmon") {
			return m[1]
		}
	}
	return ""
}
