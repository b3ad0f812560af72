package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/access"
)

// accessFlags say who may do what, and how connections are protected.
type accessFlags struct {
	AuthFile    string `placeholder:"FILE" help:"YAML file of principals and rules. Without it everybody may do everything, on loopback only."`
	TLSCert     string `name:"tls-cert" placeholder:"FILE" help:"Serve TLS with this certificate chain (PEM)."`
	TLSKey      string `name:"tls-key" placeholder:"FILE" help:"Private key of the certificate (PEM)."`
	TLSClientCA string `name:"tls-client-ca" placeholder:"FILE" help:"Accept client certificates of these authorities (PEM): the subject is the principal."`
}

func (f accessFlags) validate() error {
	if (f.TLSCert == "") != (f.TLSKey == "") {
		return errors.New("--tls-cert and --tls-key go together")
	}
	if f.TLSClientCA != "" && (f.TLSCert == "" || f.AuthFile == "") {
		return errors.New("--tls-client-ca needs --tls-cert, --tls-key and --auth-file, which says what a subject may do")
	}
	return nil
}

// guard lets in who may come in. Its files are read again on demand; one that cannot be read leaves the old in force.
type guard struct {
	flags accessFlags
	log   *slog.Logger
	tls   atomic.Pointer[tls.Config] // nil without TLS
	auth  *access.Authenticator      // nil without an auth file
	// reloaded hears of each reading but the first. It is set before reloadOn is called.
	reloaded func(ok bool)
	// onChange is called when callers may have other rights.
	onChange atomic.Pointer[func()]
}

func newGuard(f accessFlags, log *slog.Logger) (*guard, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	g := &guard{flags: f, log: log}
	config, policy, err := g.read()
	if err == nil && policy != nil {
		g.auth, err = access.New(access.Config{Policy: policy, Log: log})
	}
	if err != nil {
		return nil, err
	}
	g.tls.Store(config)
	return g, nil
}

// Close ends the fetching of the keys that JWTs are signed with.
func (g *guard) Close() {
	if g.auth != nil {
		g.auth.Close()
	}
}

func (g *guard) authenticates() bool { return g.auth != nil }

func (g *guard) scheme() string {
	if g.flags.TLSCert != "" {
		return "https"
	}
	return "http"
}

// protect makes a gateway ask who its callers are.
func (g *guard) protect(p *parts) {
	p.loopbackOnly = !g.authenticates()
	if g.auth != nil {
		p.authenticate = g.authenticate
		p.logins = func() (failed, limited uint64) { return g.auth.Failed(), g.auth.Limited() }
	}
}

// authenticate names the caller. A connection outlives the files that let it in: a certificate is verified anew for each
// request, so that authorities that were taken out, and certificates that expire, let nobody in any more.
func (g *guard) authenticate(r *http.Request) (gateway.Caller, error) {
	if byCertificate := r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && len(r.Header.Values("Authorization")) == 0; byCertificate {
		intermediates := x509.NewCertPool()
		for _, c := range r.TLS.PeerCertificates[1:] {
			intermediates.AddCert(c)
		}
		_, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{
			Roots: g.tls.Load().ClientCAs, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if err != nil {
			return nil, fence.Wrap(fence.CodeUnauthenticated, err, "the client certificate is not trusted any more")
		}
	}
	return g.auth.Authenticate(r)
}

// reloadOn reads the files again at each signal until the returned function is called, which also closes the guard. That one does
// not wait for a read that hangs: the program ends.
func (g *guard) reloadOn(hangup <-chan os.Signal) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				g.reload()
			}
		}
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(time.Second):
		}
		g.Close()
	}
}

// reload reads the files again, all or none.
func (g *guard) reload() {
	config, policy, err := g.read()
	if err != nil {
		g.log.Error("the auth file and certificates were not read again: the old ones stay in force", "error", err)
		g.reloaded(false)
		return
	}
	g.tls.Store(config)
	if g.auth != nil {
		g.auth.Replace(policy)
	}
	principals := 0
	if policy != nil {
		for range policy.Principals() {
			principals++
		}
	}
	if f := g.onChange.Load(); f != nil {
		(*f)()
	}
	g.log.Info("read the auth file and certificates again", "principals", principals)
	g.reloaded(true)
}

// changed makes f hear of it when callers may have other rights.
func (g *guard) changed(f func()) { g.onChange.Store(&f) }

// certificateEnds tells when the certificate that is served runs out; zero without TLS.
func (g *guard) certificateEnds() time.Time {
	if c := g.tls.Load(); c != nil && c.Certificates[0].Leaf != nil {
		return c.Certificates[0].Leaf.NotAfter
	}
	return time.Time{}
}

// read reads what the flags name. What they do not name is nil.
func (g *guard) read() (*tls.Config, *access.Policy, error) {
	config, err := g.readTLS()
	if err != nil || g.flags.AuthFile == "" {
		return config, nil, err
	}
	policy, err := access.Load(g.flags.AuthFile)
	if err != nil {
		return nil, nil, fmt.Errorf("--auth-file: %w", err)
	}
	if err := checkPolicy(policy, g.flags.TLSClientCA != ""); err != nil {
		return nil, nil, fmt.Errorf("--auth-file %s: %w", g.flags.AuthFile, err)
	}
	return config, policy, nil
}

func (g *guard) readTLS() (*tls.Config, error) {
	if g.flags.TLSCert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(g.flags.TLSCert, g.flags.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", g.flags.TLSCert, g.flags.TLSKey, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
	if g.flags.TLSClientCA != "" {
		pem, err := os.ReadFile(g.flags.TLSClientCA)
		if err != nil {
			return nil, fmt.Errorf("--tls-client-ca: %w", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-client-ca %s: no certificate in it", g.flags.TLSClientCA)
		}
	}
	return c, nil
}

// listener puts TLS around a listener, if there are certificates. Each connection uses those that are in force.
func (g *guard) listener(l net.Listener) net.Listener {
	if g.tls.Load() == nil {
		return l
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return g.tls.Load(), nil },
	})
}
