package debugfiles

import (
	"fmt"
	"net/url"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/elf"
)

// ServersVariable is the environment variable that lists debuginfod servers.
const ServersVariable = "DEBUGINFOD_URLS"

// Limits of what a setting lists.
const (
	maxDirectories = 16
	maxServers     = 8
)

// Search says where the debug files of a query's modules are.
func Search(s plan.Settings) elf.Search {
	search := elf.Search{Directories: Directories(s.DebugDirectory)}
	if servers, err := Servers(s.DebugServers); err == nil && len(servers) > 0 {
		search.Fetcher = fetcherOf(servers)
	}
	return search
}

// Known is Search without fetching anything: what has been fetched is used. It is for the many
// modules of stacks.
func Known(s plan.Settings) elf.Search {
	search := Search(s)
	if f, ok := search.Fetcher.(*fetcher); ok {
		search.Fetcher = kept{f}
	}
	return search
}

// Directories returns the directories that SET debug_directory lists.
func Directories(list string) (out []string) {
	for dir := range strings.SplitSeq(list, ":") {
		if dir != "" && len(out) < maxDirectories {
			out = append(out, dir)
		}
	}
	return out
}

// Servers returns the URLs that a text lists, without a slash at their end.
func Servers(list string) (out []string, err error) {
	for _, text := range strings.Fields(list) {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("'%s' is no URL of a debuginfod server (http:// or https://)", text)
		}
		out = append(out, strings.TrimRight(text, "/"))
	}
	if len(out) > maxServers {
		return nil, fmt.Errorf("%d servers are more than %d", len(out), maxServers)
	}
	return out, nil
}
