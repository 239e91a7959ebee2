package dev

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

// guarded keeps browsers' pages of other sites away from h, but for a buyer's first click: AWS Marketplace's page posts it.
//
// A page that a site serves under a name of its own can have that name lead here later, and is then of the same origin as this address.
// Browsers send Origin with whatever is no GET or HEAD. A GET of such a page has no header by which it could be told from a program's: it
// goes to its own origin, which is no secure one, so there is no Origin and no Sec-Fetch-Site, and the page may leave out the Referer
// (Fetch standard, Origin header; Fetch Metadata Request Headers). So nothing is read by a name that a site could have, whoever asks.
func guarded(h http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusForbidden, "the request comes from a page of another site", "use curl or a program; pages elsewhere have no say here")
	}))
	protection.AddInsecureBypassPattern("POST " + registerPath)
	protected := protection.Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		if (read || r.Header.Get("Origin") != "") && !local(r.Host) {
			fail(w, http.StatusForbidden, fmt.Sprintf("the request comes by the name %.80q, which could be another site's: nothing is read by it, and no page is served", r.Host),
				"use an address, localhost, or a name without a dot; a tunnel can send Host: localhost")
			return
		}
		protected.ServeHTTP(w, r)
	})
}

// local reports whether a Host header names this machine as no site elsewhere can: by an address, as localhost, by a name without a dot, or
// under .internal, which is nobody's in the public DNS (ICANN resolution 2024.07.29.06). The last two are those of containers.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if net.ParseIP(strings.Trim(host, "[]")) != nil {
		return true
	}
	name := strings.ToLower(host)
	return !strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost") || strings.HasSuffix(name, ".internal")
}
