package s3store

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
)

// Trust makes the store accept a test server's certificate. It comes before the first call.
func (s *Store) Trust(cert *x509.Certificate) {
	if cert == nil {
		return
	}
	s.http = s.http.WithTransportOptions(func(t *http.Transport) {
		t.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		t.TLSClientConfig.RootCAs.AddCert(cert)
	})
}
