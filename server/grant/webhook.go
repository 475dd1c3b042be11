package grant

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"endoscope/planner"
)

// schemes are the schemes of URLs, with their default ports.
type schemes map[string]int

var webSchemes = schemes{"http": 80, "https": 443}

// MayPost refuses a WEBHOOK's URL.
func (g *Grant) MayPost(address string) error {
	if g == nil || g.Anywhere {
		return nil
	}
	if len(g.Webhooks) == 0 {
		return refuse("", "WEBHOOK needs the grant \"webhooks\"")
	}
	return webSchemes.permit(address, g.Webhooks)
}

// MayExport refuses the URL of an export.
func (g *Grant) MayExport(address string) error {
	if g == nil || g.Anywhere {
		return nil
	}
	if len(g.Exports) == 0 {
		return refuse("", "CREATE EXPORT TO a URL needs the grant \"exports\"")
	}
	return schemes(planner.ExportSchemes).permit(address, g.Exports)
}

// permit refuses a URL that none of the prefixes covers.
func (s schemes) permit(address string, prefixes []Prefix) error {
	names := make([]string, len(prefixes))
	for i, p := range prefixes {
		names[i] = p.String()
	}
	hint := "your URLs: " + strings.Join(names, ", ")
	u, err := s.parse(address)
	if err != nil {
		return refuse(hint, "you may not send to '%s': %v", address, err)
	}
	ambiguous := ""
	for _, p := range prefixes {
		switch {
		case !p.a.sameServer(u):
		case p.a.path == "", !u.ambiguous() && p.coversPath(u.path):
			return nil
		case ambiguous == "":
			ambiguous = u.ambiguity()
		}
	}
	if ambiguous != "" {
		return refuse(hint, "you may not send to '%s': %s", address, ambiguous)
	}
	return refuse(hint, "you may not send to '%s'", address)
}

// Prefix is a URL prefix by component: scheme, host and port, and leading segments of
// the path. It is not a text prefix: https://a.example covers neither
// https://a.example.org nor https://a.example@b.org, and https://a.example/in does not
// cover https://a.example/inside.
//
// Servers, proxies and libraries read unusual URLs in different ways: one decodes %2e
// before it resolves .., another after; one takes \ for /, one cuts off what follows ;
// in a segment. A URL that two receivers could read differently is not covered by any
// prefix with a path. The query is not compared.
type Prefix struct {
	text string
	a    address
}

// ParsePrefix parses http://host[:port][/path] or https://...
func ParsePrefix(text string) (Prefix, error) { return webSchemes.prefix(text) }

// ParseExportPrefix parses the prefix of URLs of exports: otlp://host[:port] or the like.
func ParseExportPrefix(text string) (Prefix, error) {
	return schemes(planner.ExportSchemes).prefix(text)
}

func (s schemes) prefix(text string) (Prefix, error) {
	a, err := s.parse(text)
	switch {
	case err != nil:
		return Prefix{}, fmt.Errorf("%q: %w", text, err)
	case strings.Contains(text, "?"):
		return Prefix{}, fmt.Errorf("%q must consist of scheme, host and path", text)
	case a.ambiguous():
		return Prefix{}, fmt.Errorf("%q: %s", text, a.ambiguity())
	}
	if a.path == "/" {
		a.path = ""
	}
	return Prefix{text, a}, nil
}

func (p Prefix) String() string { return p.text }

// coversPath reports whether an unambiguous path is that of the prefix or below it. A
// prefix that ends in / covers only what is below.
func (p Prefix) coversPath(path string) bool {
	return path == p.a.path || strings.HasPrefix(path, strings.TrimSuffix(p.a.path, "/")+"/")
}

// address is a URL in the one form that all receivers read alike, except for its path.
type address struct {
	scheme, host string
	port         int
	path         string // as it is sent, without the query
}

func (a address) sameServer(b address) bool {
	return a.scheme == b.scheme && a.host == b.host && a.port == b.port
}

// parse parses a URL. It refuses whatever leaves open which server is meant.
func (s schemes) parse(text string) (address, error) {
	for _, r := range text {
		if r <= ' ' || r > '~' || strings.ContainsRune("\\\"<>^`{|}", r) {
			return address{}, fmt.Errorf("a URL must not contain %q: write %%XX in a path, and xn--... in a host's name", r)
		}
	}
	u, err := url.Parse(text)
	if err != nil {
		return address{}, errors.New("this is not a URL")
	}
	switch {
	case s[u.Scheme] == 0:
		names := slices.Sorted(maps.Keys(s))
		last := len(names) - 1
		return address{}, fmt.Errorf("a URL begins with %s:// or %s://", strings.Join(names[:last], "://, "), names[last])
	case u.Opaque != "" || u.Host == "":
		return address{}, errors.New("the URL has no host")
	case u.User != nil || strings.Contains(u.Host, "@"):
		return address{}, errors.New("the URL must not have a user")
	case strings.Contains(text, "#"):
		return address{}, errors.New("the URL must not have a fragment")
	}
	a := address{scheme: u.Scheme, path: u.EscapedPath()}
	if a.host, err = hostOf(u); err != nil {
		return a, err
	}
	a.port, err = s.port(u)
	return a, err
}

// hostOf returns the host in lower case. Names of other forms than letters, digits and -
// between dots are refused: some resolvers decode or complete them.
func hostOf(u *url.URL) (string, error) {
	host := strings.ToLower(u.Hostname())
	if strings.HasPrefix(u.Host, "[") {
		ip, err := netip.ParseAddr(host)
		if err != nil || ip.Zone() != "" || !ip.Is6() || ip.Is4In6() {
			return "", fmt.Errorf("[%s] is not an address of IPv6 without a zone", host)
		}
		return ip.String(), nil
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", fmt.Errorf("%q is not the name of a host", host)
		}
	}
	// Some resolvers read 127.1, 0x7f.1 and 017700000001 as addresses.
	if last := labels[len(labels)-1]; last[0] >= '0' && last[0] <= '9' {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.Is4() {
			return "", fmt.Errorf("%q is neither the name of a host nor an address of four numbers", host)
		}
	}
	return host, nil
}

// port returns the port, or the default one.
func (s schemes) port(u *url.URL) (int, error) {
	text := u.Port()
	if text == "" && !strings.HasSuffix(u.Host, ":") {
		return s[u.Scheme], nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != text {
		return 0, fmt.Errorf("%q is not a port", text)
	}
	return int(n), nil
}

func (a address) ambiguous() bool { return a.ambiguity() != "" }

// ambiguity returns why receivers may read the path differently; "": they read it alike.
func (a address) ambiguity() string {
	if i := strings.IndexAny(a.path, "%;\\"); i >= 0 {
		return fmt.Sprintf("receivers read %s in a path differently", a.path[i:i+1])
	}
	segments := strings.Split(strings.TrimPrefix(a.path, "/"), "/")
	if last := len(segments) - 1; segments[last] == "" {
		segments = segments[:last] // the path may end in /
	}
	i := slices.IndexFunc(segments, func(s string) bool { return strings.Trim(s, ".") == "" || strings.HasSuffix(s, ".") })
	switch {
	case i < 0:
		return ""
	case segments[i] == "":
		return "receivers read // in a path differently"
	}
	return fmt.Sprintf("receivers read %s in a path differently", segments[i])
}
