package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"endoscope/client/demo"
	"endoscope/client/render"
	"endoscope/server"
	"endoscope/server/web"
	"endoscope/server/wire"
)

const webUsage = `usage: endoscope web [demo | -p PID | --process NAME | --exe PATH] [--listen HOST:PORT]

Serves a web page on the loopback: an editor, live tables and charts, flame graphs, plans
and triggers. Prints its address, which works once, within a minute. Enter prints another.
`

// webFlags is the command line of endoscope web.
type webFlags struct {
	demo   bool
	listen string
	o      wire.SessionOptions
}

// errWebHelp: the help was asked for.
var errWebHelp = errors.New("help")

func parseWeb(args []string) (f webFlags, err error) {
	if len(args) > 0 && args[0] == "demo" {
		f.demo, args = true, args[1:]
	}
	set := flag.NewFlagSet("web", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	targets := 0
	text := func(to *string, name string) func(string) error {
		return func(v string) error {
			if v == "" {
				return errors.New("a value is required")
			}
			*to = v
			if name != "listen" {
				targets++
			}
			return nil
		}
	}
	pid := func(v string) error {
		targets++
		if f.o.PID, err = strconv.Atoi(v); err != nil || f.o.PID <= 0 {
			return fmt.Errorf("a process id is required; --process takes a name")
		}
		return nil
	}
	set.Func("p", "", pid)
	set.Func("pid", "", pid)
	set.Func("process", "", text(&f.o.Process, "process"))
	set.Func("exe", "", text(&f.o.Exe, "exe"))
	set.Func("listen", "", text(&f.listen, "listen"))
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return f, errWebHelp
		}
		return f, err
	}
	switch {
	case set.NArg() > 0:
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	case f.demo && targets > 0:
		return f, errors.New("demo starts a program of its own: it excludes other targets")
	case targets > 1:
		return f, errors.New("a page has one target; its queries can choose others: WHERE pid = 42")
	}
	if f.listen == "" {
		f.listen = "127.0.0.1:0"
	}
	return f, nil
}

// serveWeb is endoscope web: it serves the page until ctx is done or a signal arrives, and
// returns the exit code.
func serveWeb(ctx context.Context, args []string, in *os.File, out, errs io.Writer) int {
	f, err := parseWeb(args)
	if errors.Is(err, errWebHelp) {
		fmt.Fprint(out, webUsage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(errs, "error: %s\nhint: endoscope web --help lists the flags\n", render.Escape(err.Error()))
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := f.serve(ctx, in, out, errs); err != nil {
		fmt.Fprintln(errs, "error: "+render.Escape(err.Error()))
		return 1
	}
	return 0
}

func (f webFlags) serve(ctx context.Context, in *os.File, out, errs io.Writer) (err error) {
	l, err := listenWeb(f.listen)
	if err != nil {
		return err
	}
	defer l.Close()
	target := "no target"
	switch {
	case f.demo:
		d, err := demo.Start()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Stop()) }()
		f.o.PID = d.PID()
		target = fmt.Sprintf("demo, pid %d", f.o.PID)
	case f.o.PID != 0:
		target = fmt.Sprintf("pid %d", f.o.PID)
	case f.o.Process != "":
		target = f.o.Process
	case f.o.Exe != "":
		target = f.o.Exe
	}
	engine, err := server.New(server.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	// A wrong target is an error of the command, not of the first page.
	session, err := engine.NewSession(ctx, wire.Options{PID: f.o.PID, Process: f.o.Process, Exe: f.o.Exe})
	if err != nil {
		return err
	}
	if err := session.Close(); err != nil {
		return err
	}
	page := web.New(engine, web.Options{Session: f.o, Target: target, Version: version,
		Log: slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	failed := make(chan error, 1)
	go func() { failed <- page.Serve(l, false) }()
	show := func() { fmt.Fprintln(out, "http://"+l.Addr().String()+page.Link()) }
	show()
	again := make(chan struct{})
	if in != nil && term.IsTerminal(int(in.Fd())) {
		go func() {
			for lines := bufio.NewScanner(in); lines.Scan(); {
				again <- struct{}{}
			}
		}()
	}
	for {
		select {
		case <-again:
			show()
			continue
		case <-ctx.Done():
		case err = <-failed:
		}
		break
	}
	grace, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	page.Stop(grace)
	return err
}

// listenWeb listens on an address of the loopback: the page is not encrypted.
func listenWeb(addr string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", addr, err)
	}
	if !at.IP.IsLoopback() {
		return nil, fmt.Errorf("--listen %s: others can reach this address, and the page is not encrypted; endoscoped --web serves it with TLS and users", addr)
	}
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %s", addr, strings.TrimPrefix(err.Error(), "listen tcp "))
	}
	return l, nil
}
