package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// healthCmd takes the addresses by the flags of serve, so that in a container it asks the gateway beside it.
type healthCmd struct {
	URL         string        `name:"url" env:"FENCEGATE_HEALTH_URL" placeholder:"URL" help:"Gateway to ask. Defaults to this machine's, at the address of --admin-listen, else of --listen."`
	Live        bool          `env:"FENCEGATE_HEALTH_LIVE" help:"Ask whether the process answers (/livez), not whether it can serve writes (/readyz)."`
	Timeout     time.Duration `env:"FENCEGATE_HEALTH_TIMEOUT" default:"2s" help:"How long to wait for the answer."`
	Insecure    bool          `env:"FENCEGATE_HEALTH_INSECURE" help:"Accept any certificate from the --url. For loopback only."`
	Listen      string        `default:"127.0.0.1:8080" placeholder:"ADDR" help:"As of fencegate serve."`
	AdminListen string        `placeholder:"ADDR" help:"As of fencegate serve."`
	TLSCert     string        `name:"tls-cert" placeholder:"FILE" help:"As of fencegate serve; only whether there is one matters."`
}

// Help is shown below the flags of fencegate health.
func (healthCmd) Help() string {
	return `Exit code 0 when the gateway is ready, 1 when it is not or does not answer. Made for the health check of a container,
which has no other program. A gateway that drains is not ready.`
}

// Run asks once.
func (c *healthCmd) Run(std *streams, rc *runContext) error {
	base, insecure, err := c.target()
	if err != nil {
		return err
	}
	path := "/readyz"
	if c.Live {
		path = "/livez"
	}
	answer, err := probe(rc, base.JoinPath(path).String(), insecure, c.Timeout)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s: %s\n", base, answer)
	return nil
}

// target is whom to ask, and whether any certificate will do.
func (c *healthCmd) target() (_ *url.URL, insecure bool, err error) {
	if c.Timeout <= 0 {
		return nil, false, errors.New("--timeout must be positive")
	}
	if c.URL == "" {
		return c.own()
	}
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil || base.RawQuery != "" {
		// Not repeated: it may hold what it should not.
		return nil, false, errors.New("--url is not of the form http://HOST:PORT or https://HOST:PORT")
	}
	host := base.Hostname()
	ip, err := netip.ParseAddr(host)
	if loopback := host == "localhost" || err == nil && ip.IsLoopback(); c.Insecure && !loopback {
		return nil, false, errors.New("--insecure is for loopback addresses only")
	}
	return base, c.Insecure, nil
}

// own derives the URL of the gateway on this machine. Its certificate is made out for the name by which others call it,
// never for loopback, and is not checked.
func (c *healthCmd) own() (*url.URL, bool, error) {
	scheme, flag, addr := "http", "--admin-listen", c.AdminListen
	if addr == "" {
		flag, addr = "--listen", c.Listen
		if c.TLSCert != "" {
			scheme = "https"
		}
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, false, fmt.Errorf("%s %s: %w", flag, addr, err)
	}
	if port == "" || port == "0" {
		return nil, false, fmt.Errorf("%s %s: the port is not known, name the gateway with --url", flag, addr)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "" || err == nil && ip.IsUnspecified() && ip.Is4():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}, true, nil
}

// maxHealthAnswer is more than the gateway says.
const maxHealthAnswer = 1 << 10

// probe returns the words of a gateway that says yes, and an error for anything else.
func probe(ctx context.Context, url string, insecure bool, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	// No proxy from the environment and no redirect: only the gateway itself can say how it is.
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure}}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthAnswer))
	if err != nil {
		return "", fmt.Errorf("%s: %w", url, err)
	}
	answer := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %d: %q", url, resp.StatusCode, answer)
	}
	return answer, nil
}
