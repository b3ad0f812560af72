package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const maxRedirects = 3

// fetcher gets key sets.
type fetcher struct {
	client  *http.Client
	timeout time.Duration
}

func newFetcher(transport http.RoundTripper, timeout time.Duration) fetcher {
	return fetcher{timeout: timeout, client: &http.Client{Transport: transport, CheckRedirect: onTrustedWays}}
}

// defaultTransport keeps no connection: there is one request every few minutes.
func defaultTransport() http.RoundTripper {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10,
	}
}

// onTrustedWays follows no redirect off TLS, nor one from elsewhere to a host of loopback.
func onTrustedWays(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case !trusted(r.URL), via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
		return errors.New("redirected off https")
	}
	return nil
}

// fetch gets the key set at a URL. Its errors say nothing of the answer but its status.
func (f fetcher) fetch(ctx context.Context, url string) (*keySet, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	r.Header.Set("User-Agent", "fencegate")
	answer, err := f.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer has status %d", answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxKeySet+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxKeySet:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxKeySet)
	}
	return parseKeys(text)
}
