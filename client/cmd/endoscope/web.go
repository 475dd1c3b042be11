package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"endoscope/client"
	"endoscope/server/web"
	"endoscope/server/wire"
)

// serveWeb serves the page of an engine (client.Program.ServeWeb).
func serveWeb(ctx context.Context, w client.WebPage, in io.Reader, out, errs io.Writer) (err error) {
	l, err := listenWeb(w.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	engine, err := w.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	// A wrong target is an error of the command, not of the first page.
	session, err := engine.NewSession(ctx, wire.Options{PID: w.Session.PID, Process: w.Session.Process, Exe: w.Session.Exe})
	if err != nil {
		return err
	}
	if err := session.Close(); err != nil {
		return err
	}
	page := web.New(engine, web.Options{Session: w.Session, Target: w.Target, Version: w.Version,
		Log: slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	failed := make(chan error, 1)
	go func() { failed <- page.Serve(l, false) }()
	show := func() { fmt.Fprintln(out, "http://"+l.Addr().String()+page.Link()) }
	show()
	again := make(chan struct{})
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
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
