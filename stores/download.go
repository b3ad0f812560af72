package stores

import (
	"context"
	"errors"
	"io"

	"github.com/fencegate/fencegate/fence"
)

var errDownloadLimit = errors.New("the download took too long")

// download reads exactly the announced length, so that a blob cut short is an error and never a short answer (I6).
type download struct {
	body   *Body
	length int64
	close  func() error
	cancel context.CancelFunc
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.body.Read(p)
	if err != nil && err != io.EOF {
		err = fence.Wrap(fence.CodeStoreUnavailable, err, "reading broke off after %d of %d bytes", d.body.Len(), d.length)
	}
	return n, err
}

// Close releases the blob.
func (d *download) Close() error {
	defer d.cancel()
	return d.close()
}
