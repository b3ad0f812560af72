package dirstore

import (
	"path/filepath"
	"strings"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// maxFileName is the longest name that common file systems take, in bytes.
const maxFileName = 255

// place is where a blob lies, relative to the root.
type place struct{ bucket, dir, file string }

func locate(bucket, id string) (place, error) {
	if err := stores.CheckBlobID(id); err != nil {
		return place{}, err
	}
	name, err := bucketDir(bucket)
	if err != nil {
		return place{}, err
	}
	dir := filepath.Join(name, id[:2])
	return place{bucket: name, dir: dir, file: filepath.Join(dir, id)}, nil
}

// bucketDir returns the name of a bucket's directory: the bucket with every byte but lower-case letters, digits,
// - and _ as %XX (dots too, but at the start only). Upper case is escaped because file systems may fold it.
func bucketDir(bucket string) (string, error) {
	if bucket == "" || strings.ContainsAny(bucket, "/\\\x00") || bucket == "." || bucket == ".." {
		return "", errBucket(bucket)
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(bucket) {
		switch c := bucket[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	if b.Len() > maxFileName {
		return "", errBucket(bucket)
	}
	return b.String(), nil
}

func errBucket(bucket string) error {
	return fence.Errorf(fence.CodeInvalidRequest, "%.40q cannot be a bucket's name in a blob directory", bucket).In("bucket")
}
