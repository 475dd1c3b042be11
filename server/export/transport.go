package export

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"endoscope/planner"
)

// transport sends requests to one receiver. A call ends with its context.
type transport interface {
	// metrics and traces return how many of the items the receiver has refused.
	metrics(ctx context.Context, e *Export, shot *Snapshot) (rejected int64, err error)
	traces(ctx context.Context, e *Export, spans []*span) (rejected int64, err error)
	close()
}

// permanent is the error of a request that would be refused again.
type permanent struct{ error }

func newTransport(p *planner.Export) (transport, error) {
	u, err := url.Parse(p.To)
	if err != nil {
		return nil, err
	}
	headers := map[string]string{}
	for pair := range strings.SplitSeq(p.Options.Headers, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			headers[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
		}
	}
	if u.Port() == "" {
		u.Host = fmt.Sprintf("%s:%d", u.Host, planner.ExportSchemes[u.Scheme])
	}
	if protocol, scheme, ok := strings.Cut(u.Scheme, "+"); ok {
		u.Scheme = scheme
		client := &http.Client{
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		switch protocol {
		case planner.RemoteWrite:
			if strings.Trim(u.Path, "/") == "" {
				u.Path = "/api/v1/write"
			}
			return &remoteWrite{to: u.String(), headers: headers, client: client}, nil
		case planner.Pyroscope:
			headers["content-type"] = "application/proto"
			return newProfiles(&pyroscope{to: strings.TrimSuffix(u.String(), "/") + "/push.v1.PusherService/Push", headers: headers, client: client}), nil
		}
		return &overHTTP{base: strings.TrimSuffix(u.String(), "/"), headers: headers, client: client}, nil
	}
	creds := insecure.NewCredentials()
	if strings.HasSuffix(u.Scheme, "s") {
		creds = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	}
	conn, err := grpc.NewClient("dns:///"+u.Host, grpc.WithTransportCredentials(creds), grpc.WithUserAgent("endoscope"))
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(u.Scheme, planner.Parca) {
		return newProfiles(&parca{conn: conn, headers: metadata.New(headers)}), nil
	}
	return &overGRPC{conn: conn, headers: metadata.New(headers)}, nil
}

// overGRPC is OTLP over gRPC.
type overGRPC struct {
	conn    *grpc.ClientConn
	headers metadata.MD
}

func (t *overGRPC) metrics(ctx context.Context, e *Export, shot *Snapshot) (int64, error) {
	resp, err := metricspb.NewMetricsServiceClient(t.conn).Export(metadata.NewOutgoingContext(ctx, t.headers), metricsRequest(e, shot))
	return resp.GetPartialSuccess().GetRejectedDataPoints(), retryable(err)
}

func (t *overGRPC) traces(ctx context.Context, e *Export, spans []*span) (int64, error) {
	resp, err := tracepb.NewTraceServiceClient(t.conn).Export(metadata.NewOutgoingContext(ctx, t.headers), tracesRequest(e, spans))
	return resp.GetPartialSuccess().GetRejectedSpans(), retryable(err)
}

func (t *overGRPC) close() { _ = t.conn.Close() }

// retryable marks the errors that OTLP says are permanent.
func retryable(err error) error {
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.Canceled, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		return errors.New(status.Convert(err).Message())
	}
	return permanent{errors.New(status.Convert(err).Message())}
}

// overHTTP is OTLP over HTTP, with bodies in protobuf.
type overHTTP struct {
	base    string
	headers map[string]string
	client  *http.Client
}

func (t *overHTTP) metrics(ctx context.Context, e *Export, shot *Snapshot) (int64, error) {
	resp := &metricspb.ExportMetricsServiceResponse{}
	err := t.send(ctx, "/v1/metrics", metricsRequest(e, shot), resp)
	return resp.GetPartialSuccess().GetRejectedDataPoints(), err
}

func (t *overHTTP) traces(ctx context.Context, e *Export, spans []*span) (int64, error) {
	resp := &tracepb.ExportTraceServiceResponse{}
	err := t.send(ctx, "/v1/traces", tracesRequest(e, spans), resp)
	return resp.GetPartialSuccess().GetRejectedSpans(), err
}

func (t *overHTTP) close() { t.client.CloseIdleConnections() }

// send sends a request and reads the response, if it is one.
func (t *overHTTP) send(ctx context.Context, path string, r, response proto.Message) error {
	body, err := proto.Marshal(r)
	if err != nil {
		return permanent{err}
	}
	status, answer, err := post(ctx, t.client, t.base+path, t.headers, body)
	switch {
	case status == http.StatusInternalServerError, status == http.StatusNotImplemented:
		return permanent{err} // for OTLP, though not for others
	case err != nil:
		return err
	}
	_ = proto.Unmarshal(answer, response) // an unreadable response is a success
	return nil
}

// post sends a body in protobuf. A status that is no success is an error, which is permanent
// unless the server is to blame or asks for patience. The answer is nil if it is not in
// protobuf.
func post(ctx context.Context, client *http.Client, to string, headers map[string]string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, nil, permanent{err}
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("User-Agent", "endoscope")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || resp.Header.Get("Content-Type") != "application/x-protobuf" {
		answer = nil
	}
	status = resp.StatusCode
	if status/100 == 2 {
		return status, answer, nil
	}
	err = fmt.Errorf("the receiver answers %s", resp.Status)
	if status/100 != 5 && status != http.StatusTooManyRequests {
		err = permanent{err}
	}
	return status, nil, err
}
