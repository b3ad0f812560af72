package gateway

import (
	"io"
	"net/http"
	"time"
)

// answer is an answer of which it is known whether it has begun, and as what.
type answer struct {
	http.ResponseWriter
	began bool
	// replayed says that it began as one that is given again. The header cannot be asked for that any more: once an answer has begun, net/http
	// copies the header for whoever wants to see it.
	replayed bool
}

// WriteHeader begins the answer, once; an informational status does not.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		if a.began {
			return
		}
		a.began, a.replayed = true, a.Header()[headerReplayed] != nil
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(p)
}

// ReadFrom lets the kernel copy a body, where the connection can.
func (a *answer) ReadFrom(src io.Reader) (int64, error) {
	a.begin()
	return io.Copy(a.ResponseWriter, src)
}

func (a *answer) begin() {
	if !a.began {
		a.WriteHeader(http.StatusOK)
	}
}

// FlushError is for http.ResponseController.
func (a *answer) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// SetReadDeadline bounds the reading of the request's body; a zero time lifts the bound.
func (a *answer) SetReadDeadline(t time.Time) error { return setReadDeadline(a.ResponseWriter, t) }

// setReadDeadline is what http.ResponseController does, without one for each request.
func setReadDeadline(w http.ResponseWriter, t time.Time) error {
	if conn, ok := w.(interface{ SetReadDeadline(time.Time) error }); ok {
		return conn.SetReadDeadline(t)
	}
	return http.NewResponseController(w).SetReadDeadline(t)
}
