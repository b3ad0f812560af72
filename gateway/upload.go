package gateway

import (
	"errors"
	"io"
	"os"

	"github.com/fencegate/fencegate/fence"
)

// upload is a body on its way in. Its errors carry codes, so that a client that breaks off is not taken for a
// store that failed.
type upload struct {
	body io.Reader
	// left is how many bytes may still come, of at most most.
	left, most int64
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.body.Read(p)
	u.left -= int64(n)
	switch {
	case u.left < 0:
		return 0, objectTooLarge(u.most)
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, fence.Wrap(fence.CodeInvalidRequest, err, "the upload took too long; nothing was published")
	}
	return n, fence.Wrap(fence.CodeInvalidRequest, err, "the body broke off; nothing was published")
}
