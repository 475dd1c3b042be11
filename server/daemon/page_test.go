package daemon

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
)

// The page has the daemon's users and certificates, and one name for each.
func TestPageHasTheDaemonsUsers(t *testing.T) {
	dir := configured(t, twoUsers)
	token := command(t, "token", "add", "alice", "--config", dir)
	d := begin(t, "--web", "127.0.0.1:0", "--config", dir)
	addr := d.addrs[0].String()
	_, port, _ := net.SplitHostPort(addr)
	login := func(host, user, token string) (int, string) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting(t, dir, user), ForceAttemptHTTP2: true}}
		body, _ := json.Marshal(map[string]string{"token": token})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr+"/api/login", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Origin", "https://"+host)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.ProtoMajor != 2 { // a browser has no limit of connections then
			t.Errorf("the protocol is %s", answer.Proto)
		}
		var out struct{ Key, User string }
		if err := json.NewDecoder(answer.Body).Decode(&out); err != nil {
			t.Fatal(err)
		}
		if (answer.StatusCode == http.StatusOK) != (out.Key != "") {
			t.Errorf("%s with the key %q", answer.Status, out.Key)
		}
		return answer.StatusCode, out.User
	}
	for _, c := range []struct {
		host, user, token string
		status            int
		who               string
	}{
		{"localhost:" + port, "", token, http.StatusOK, "alice"},
		{addr, "alice", "", http.StatusOK, "alice"},
		{addr, "", "", http.StatusUnauthorized, ""},
		{addr, "", token + "x", http.StatusUnauthorized, ""},
		{"evil.example:" + port, "", token, http.StatusMisdirectedRequest, ""},
	} {
		if status, who := login(c.host, c.user, c.token); status != c.status || who != c.who {
			t.Errorf("host %s, certificate %q, token %q: status %d, user %q", c.host, c.user, c.token, status, who)
		}
	}
	if text := d.log.String(); strings.Contains(text, token) {
		t.Errorf("the log has the token:\n%s", text)
	}
}
