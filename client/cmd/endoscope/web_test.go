package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"endoscope/client"
	"endoscope/probes/testenv"
)

func TestWebFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-p 12", ""},
		{"demo --listen 127.0.0.1:7004", ""},
		{"--process redis-server", ""},
		{"-p x", "-p needs a process id"},
		{"-p 1 --exe /bin/x", "-p and --exe exclude each other"},
		{"demo -p 1", "demo and -p exclude each other"},
		{"other", `takes no argument "other"`},
		{"--port 1", "there is no flag --port"},
	} {
		var errs testenv.Buffer
		served := false
		p := client.Program{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &errs}
		p.ServeWeb = func(context.Context, client.WebPage, io.Reader, io.Writer, io.Writer) error {
			served = true
			return nil
		}
		code := p.Run(t.Context(), append([]string{"web"}, strings.Fields(c.args)...))
		if served != (c.want == "") || !served && code != 2 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit code %d, served %v: %s, want %q", c.args, code, served, errs.String(), c.want)
		}
	}
}

func TestWebIsServedOnTheLoopbackOnly(t *testing.T) {
	var out, errs testenv.Buffer
	p := program()
	p.Stdout, p.Stderr = &out, &errs
	if code := p.Run(t.Context(), []string{"web", "--listen", "0.0.0.0:0"}); code != 1 || !strings.Contains(errs.String(), "endoscoped --web") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

func TestWebPrintsItsAddressAndEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := io.Pipe()
	code := make(chan int, 1)
	p := program()
	p.Stdin, p.Stdout = strings.NewReader(""), write
	go func() { code <- p.Run(ctx, []string{"web"}) }()
	text, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base, token, ok := strings.Cut(strings.TrimSpace(text), "/#token=")
	if !ok || !strings.HasPrefix(base, "http://127.0.0.1:") {
		t.Fatalf("it prints %q", text)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/login", strings.NewReader(`{"token":"`+token+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", base)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var in struct{ Key, Target string }
	if err := json.NewDecoder(answer.Body).Decode(&in); err != nil || in.Key == "" || in.Target != "no target" {
		t.Errorf("login: %s %+v %v", answer.Status, in, err)
	}
	stop()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}
