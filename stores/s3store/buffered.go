package s3store

import (
	"cmp"
	"context"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"
)

// partsAtOnce is how many parts of one upload have a buffer, if there is memory: two are sent while the next is read.
const partsAtOnce = 3

// buffered sends the parts of a body of unknown length.
type buffered struct {
	*put
	upload *string
	send   func(ctx context.Context, upload *string, n int32, part []byte) (types.CompletedPart, error)
	// size is the length of the buffers, of which there are so many. Nothing is sent from those that are free.
	size    int64
	buffers int
	free    chan []byte
	parts   []*types.CompletedPart
	// flight is of the parts that are being sent. Its context ends with the first that fails.
	flight *errgroup.Group
	over   context.Context
}

// sendParts sends part after part, of which first is the first.
func (p *put) sendParts(ctx context.Context, upload *string, sum types.ChecksumAlgorithm, first []byte) ([]types.CompletedPart, error) {
	b := &buffered{put: p, upload: upload, send: p.sendPart, size: p.bufferSize(1), buffers: 1, free: make(chan []byte, partsAtOnce)}
	if sum == types.ChecksumAlgorithmSha256 {
		b.send = p.sendPartSHA
	}
	ctx, cancel := context.WithCancel(ctx)
	b.flight, b.over = errgroup.WithContext(ctx)
	// Nobody reads a buffer once this has returned: its memory is another's then.
	defer func() {
		cancel()
		_ = b.flight.Wait() // there is an error already if a part is still on its way
	}()
	for part := first; len(part) > 0; {
		if len(b.parts) == maxParts {
			return nil, p.errTooLarge()
		}
		b.start(part)
		if p.body.Ended() {
			break
		}
		buf, err := b.next(ctx)
		if err != nil {
			return nil, err
		}
		n, err := p.fill(buf)
		if err != nil {
			return nil, err
		}
		part = buf[:n]
	}
	if err := b.flight.Wait(); err != nil {
		return nil, err
	}
	parts := make([]types.CompletedPart, len(b.parts))
	for i, part := range b.parts {
		parts[i] = *part
	}
	return parts, nil
}

// start sends a part.
func (b *buffered) start(part []byte) {
	sent := &types.CompletedPart{}
	b.parts = append(b.parts, sent)
	n, ctx := int32(len(b.parts)), b.over
	b.flight.Go(func() (err error) {
		if *sent, err = b.send(ctx, b.upload, n, part); err == nil {
			b.free <- part[:cap(part)]
		}
		return err
	})
}

// next returns a buffer for the next part: one that is free, another if there is memory for it, or else the first that becomes free. After a
// part that failed there is none: nothing more is read.
func (b *buffered) next(ctx context.Context) ([]byte, error) {
	if b.over.Err() != nil {
		return nil, cmp.Or(b.flight.Wait(), context.Cause(b.over))
	}
	if size := b.bufferSize(len(b.parts) + 1); size > b.size {
		return b.regrow(ctx, size)
	}
	select {
	case buf := <-b.free:
		return buf, nil
	default:
	}
	if b.another() {
		b.buffers++
		return make([]byte, b.size), nil
	}
	select {
	case buf := <-b.free:
		return buf, nil
	case <-b.over.Done():
		return nil, cmp.Or(b.flight.Wait(), context.Cause(b.over))
	}
}

// another takes the memory of one more buffer, which nobody waits for. A third is only taken while most of the memory is idle.
func (b *buffered) another() bool {
	switch {
	case b.buffers == partsAtOnce, b.buffers == partsAtOnce-1 && b.memory.inUse.Load()+b.size > b.memory.size/2, !b.memory.tryAcquire(b.size):
		return false
	}
	b.reserved += b.size
	return true
}

// regrow returns a longer buffer. It gives back the memory of the shorter ones first, for it may have to wait, and whoever waits holds none.
func (b *buffered) regrow(ctx context.Context, size int64) ([]byte, error) {
	if err := b.flight.Wait(); err != nil {
		return nil, err
	}
	b.flight, b.over = errgroup.WithContext(ctx)
	b.free = make(chan []byte, partsAtOnce)
	b.release()
	b.reserved = 0
	if err := b.reserve(ctx, size); err != nil {
		return nil, err
	}
	b.size, b.buffers = size, 1
	return make([]byte, size), nil
}
