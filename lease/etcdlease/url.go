package etcdlease

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

const defaultPort = "2379"

const encode = `special characters in a user name or password are percent-encoded ("@" is %40, "/" is %2F, "#" is %23, "?" is %3F)`

// etcdURL is what a URL says.
type etcdURL struct {
	endpoints      []string // as etcd's client takes them
	user, password string
	secure         bool
	ca, cert, key  string // files, if any
}

// parseURL reads a URL. Its errors quote nothing of it: a password whose special characters are not encoded may be split over
// any part.
func parseURL(raw string) (etcdURL, error) {
	u, err := readURL(raw)
	if err != nil {
		return etcdURL{}, fmt.Errorf("etcd url: %w", err)
	}
	return u, nil
}

func readURL(raw string) (u etcdURL, err error) {
	scheme, rest, _ := strings.Cut(raw, "://")
	switch scheme {
	case "etcd", "http":
	case "etcds", "https":
		u.secure = true
	default:
		return u, errors.New("it begins with none of etcd://, etcds://, http:// and https://")
	}
	// net/url knows no lists of hosts.
	rest, options, _ := strings.Cut(rest, "?")
	if strings.Contains(rest+options, "#") {
		return u, errors.New(`it has a "#"; ` + encode)
	}
	hosts, path, _ := strings.Cut(strings.ReplaceAll(rest, ","+scheme+"://", ","), "/")
	if path != "" {
		return u, errors.New("it has a path; the prefix is set elsewhere, and " + encode)
	}
	credentials := ""
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		credentials, hosts = hosts[:at], hosts[at+1:]
	}
	if err := u.setCredentials(credentials); err != nil {
		return u, err
	}
	if err := u.setHosts(hosts); err != nil {
		return u, err
	}
	return u, u.setOptions(options)
}

func (u *etcdURL) setCredentials(text string) (err error) {
	if text == "" {
		return nil
	}
	user, password, _ := strings.Cut(text, ":")
	var userErr, passwordErr error
	u.user, userErr = url.PathUnescape(user)
	u.password, passwordErr = url.PathUnescape(password)
	switch {
	case userErr != nil || passwordErr != nil || strings.ContainsAny(user+password, "@:"):
		return errors.New("its user name or password cannot be read; " + encode)
	case u.user == "" || u.password == "":
		return errors.New("a user name and its password go together")
	}
	return nil
}

func (u *etcdURL) setHosts(list string) error {
	scheme := "http://"
	if u.secure {
		scheme = "https://"
	}
	for host := range strings.SplitSeq(list, ",") {
		one, err := url.Parse("etcd://" + host)
		if err != nil || one.Host != host || one.Hostname() == "" || strings.Contains(one.Hostname(), ":") && host[0] != '[' {
			return errors.New("its hosts cannot be read: host[:port], with commas between them; " + encode)
		}
		port := one.Port()
		if port == "" {
			port = defaultPort
		}
		u.endpoints = append(u.endpoints, scheme+net.JoinHostPort(one.Hostname(), port))
	}
	return nil
}

func (u *etcdURL) setOptions(text string) error {
	options, err := url.ParseQuery(text)
	if err != nil {
		return errors.New("its options cannot be read; " + encode)
	}
	for name, values := range options {
		switch {
		case len(values) != 1 || values[0] == "":
			return errors.New("an option is empty or given twice")
		case name == "ca":
			u.ca = values[0]
		case name == "cert":
			u.cert = values[0]
		case name == "key":
			u.key = values[0]
		default:
			return errors.New("it has an option that is none of ca, cert and key; " + encode)
		}
	}
	switch {
	case !u.secure && len(options) > 0:
		return errors.New("ca, cert and key are for etcds:// and https://")
	case (u.cert == "") != (u.key == ""):
		return errors.New("cert and key go together")
	}
	return nil
}

// tlsConfig reads the files; nil means no TLS.
func (u *etcdURL) tlsConfig() (*tls.Config, error) {
	if !u.secure {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if u.ca != "" {
		text, err := os.ReadFile(u.ca)
		if err != nil {
			return nil, fmt.Errorf("etcd url: certificate authorities: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("etcd url: %s has no certificate in PEM", u.ca)
		}
	}
	if u.cert != "" {
		pair, err := tls.LoadX509KeyPair(u.cert, u.key)
		if err != nil {
			return nil, fmt.Errorf("etcd url: client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
