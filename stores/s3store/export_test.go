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

// CopyInPartsFrom makes the store copy in the least parts that S3 takes what is longer than limit bytes.
func (s *Store) CopyInPartsFrom(limit int64) { s.sizes.single, s.sizes.copyPart = limit, minPartSize }

// StreamInPartsFrom makes the store stream in the least parts that S3 takes what is longer than limit bytes.
func (s *Store) StreamInPartsFrom(limit int64) {
	s.sizes.single, s.sizes.streamPart = limit, minPartSize
}

// GrowPartsAfter makes buffered parts twice as long after so many.
func (s *Store) GrowPartsAfter(parts int) { s.sizes.growAfter = parts }
