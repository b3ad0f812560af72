package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// upload is the body of an object, read anew for each try if it can be.
type upload struct {
	size  int64 // -1 when it is not known
	src   io.Reader
	seek  io.Seeker // nil when the body can be read once only
	start int64

	mu      sync.Mutex
	current *part // guarded by mu: the try that reads
	begun   bool  // guarded by mu: something was read
	failed  error // guarded by mu: of the caller's reader
}

// newUpload takes a body from where its reader stands.
func newUpload(body io.Reader, size int64) *upload {
	if buffer, ok := body.(*bytes.Buffer); ok {
		body = bytes.NewReader(buffer.Bytes())
	}
	u := &upload{size: size, src: body}
	seek, ok := body.(io.Seeker)
	if !ok {
		return u
	}
	start, err := seek.Seek(0, io.SeekCurrent)
	if err != nil {
		return u // such as a pipe that is an *os.File
	}
	u.seek, u.start = seek, start
	return u
}

// sized finds the size of a body that was given without one, where it can be found.
func (u *upload) sized() error {
	if u.seek == nil {
		return nil
	}
	end, err := u.seek.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = u.seek.Seek(u.start, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("find the size of the body: %w", err)
	}
	u.size = end - u.start
	return nil
}

// again reports whether there can be another try.
func (u *upload) again() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failed == nil && (u.seek != nil || !u.begun)
}

// failure is the error of the caller's reader.
func (u *upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failed
}

// next returns the body for a try. The try before may still be reading: net/http does not wait for that.
func (u *upload) next() (io.ReadCloser, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.begun {
		if _, err := u.seek.Seek(u.start, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read the body again: %w", err)
		}
	}
	u.current = &part{upload: u}
	return u.current, nil
}

// describe tells the request about its body.
func (u *upload) describe(req *http.Request) {
	req.ContentLength = u.size
	if u.size == 0 {
		req.Body = http.NoBody
	}
	const patient = 64 << 10
	if u.size < 0 || u.size > patient {
		// What is refused anyway need not be sent.
		req.Header.Set("Expect", "100-continue")
	}
}

var (
	errTooShort = errors.New("the body is shorter than its size")
	errTooLong  = errors.New("the body is longer than its size")
	errOldTry   = errors.New("the request was given up")
)

// part is the body as one try reads it.
type part struct {
	upload *upload
	read   int64
	ended  bool
}

// Read hands out the last bytes of a body of known size only when nothing follows them: a body that is longer than was
// said must not be accepted without its rest.
func (p *part) Read(b []byte) (int, error) {
	u := p.upload
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.current != p:
		return 0, errOldTry
	case u.failed != nil:
		return 0, u.failed
	case p.ended:
		return 0, io.EOF
	}
	u.begun = true
	n, err := u.src.Read(b)
	p.read += int64(n)
	if u.size >= 0 {
		if err == nil && p.read == u.size {
			err = atEnd(u.src)
		}
		switch {
		case p.read > u.size:
			err = errTooLong
		case errors.Is(err, io.EOF) && p.read < u.size:
			err = errTooShort
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		p.ended = true
		return n, io.EOF
	case err != nil:
		u.failed = err
		return 0, err
	}
	return n, nil
}

// atEnd returns io.EOF when nothing is left.
func atEnd(src io.Reader) error {
	var one [1]byte
	for {
		n, err := src.Read(one[:])
		switch {
		case n > 0:
			return errTooLong
		case err != nil:
			return err
		}
	}
}

// Close ends the try's reading. The body is the caller's to close.
func (p *part) Close() error { return nil }
