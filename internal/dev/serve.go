package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// requestsGrace is how long requests under way are waited for at the end.
const requestsGrace = 10 * time.Second

// Serve runs the node and serves its Handler on the listener until ctx ends, and then brings both to their end: no request is
// taken any more, those under way and the running stages are let finish within their grace.
func (m *Machine) Serve(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	server := &http.Server{Handler: m.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	served, shut := make(chan error, 1), make(chan struct{})
	go func() {
		defer stop() // a listener that fails ends the node too
		served <- server.Serve(listener)
	}()
	go func() {
		defer close(shut)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestsGrace)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close()
		}
	}()
	err := m.Run(ctx)
	<-shut
	if cause := <-served; !errors.Is(cause, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve HTTP: %w", cause))
	}
	return err
}
