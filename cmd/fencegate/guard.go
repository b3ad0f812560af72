package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
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
}

func newGuard(f accessFlags, log *slog.Logger) (*guard, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	g := &guard{flags: f, log: log}
	if err := g.loadTLS(); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *guard) authenticates() bool { return g.flags.AuthFile != "" }

func (g *guard) scheme() string {
	if g.flags.TLSCert != "" {
		return "https"
	}
	return "http"
}

// protect makes a gateway ask who its callers are.
func (g *guard) protect(p *parts) { p.loopbackOnly = !g.authenticates() }

// reload reads the files again.
func (g *guard) reload() {
	err := g.loadTLS()
	if err != nil {
		g.log.Error("the files of access were not read again, what was in force stays", "error", err)
		return
	}
	g.log.Info("read the files of access again")
}

// loadTLS reads certificate, key and authorities, all or none.
func (g *guard) loadTLS() error {
	if g.flags.TLSCert == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(g.flags.TLSCert, g.flags.TLSKey)
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", g.flags.TLSCert, g.flags.TLSKey, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
	if g.flags.TLSClientCA != "" {
		pem, err := os.ReadFile(g.flags.TLSClientCA)
		if err != nil {
			return fmt.Errorf("--tls-client-ca: %w", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("--tls-client-ca %s: no certificate in it", g.flags.TLSClientCA)
		}
	}
	g.tls.Store(c)
	return nil
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
