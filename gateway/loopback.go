package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// loopback refuses what a web page could send to a gateway without authentication: a name that resolves to
// 127.0.0.1 (DNS rebinding) shows in Host, another site's page in Origin or Sec-Fetch-Site.
func (g *Gateway) loopback(next http.Handler) http.Handler {
	return g.handle(func(w http.ResponseWriter, r *http.Request) error {
		if !loopbackHost(r.Host) {
			return fence.Errorf(fence.CodeForbidden, "without authentication this gateway answers to loopback names only").In("Host")
		}
		for _, origin := range r.Header["Origin"] {
			if !sameOrigin(origin, r.Host) {
				return fence.Errorf(fence.CodeForbidden, "the request comes from a page of another origin").In("Origin")
			}
		}
		for _, site := range r.Header["Sec-Fetch-Site"] {
			if strings.EqualFold(site, "cross-site") {
				return fence.Errorf(fence.CodeForbidden, "the request comes from a page of another site").In("Sec-Fetch-Site")
			}
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

func loopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	} else if inner, found := strings.CutPrefix(hostport, "["); found {
		host = strings.TrimSuffix(inner, "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.IsLoopback()
}

func sameOrigin(origin, host string) bool {
	return strings.EqualFold(origin, "http://"+host) || strings.EqualFold(origin, "https://"+host)
}
