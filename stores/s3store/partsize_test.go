package s3store

import "testing"

// A body of up to 5 TiB fits into as many parts as S3 takes, of lengths that it takes.
func TestPartSize(t *testing.T) {
	const largestPart = 5 << 30
	for _, size := range []int64{0, 1, minPartSize, minPartSize*maxParts - 1, minPartSize * maxParts, minPartSize*maxParts + 1, 5 << 30, 1<<40 + 1, maxBlob - 1, maxBlob} {
		for _, least := range []int64{minPartSize, 64 * mebi, largestPart} {
			if each := partSize(size, least); each < least || each > largestPart || (size+each-1)/each > maxParts {
				t.Errorf("%d bytes in parts of %d, at least %d", size, each, least)
			}
		}
	}
}
