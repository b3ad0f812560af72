package localservers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxSocketFolder is the longest folder, in bytes, below which PostgreSQL's socket (/.s.PGSQL.5432) still fits into
// an address: 104 bytes with the closing NUL on macOS, 108 on Linux.
const maxSocketFolder = 88

// socketFolder returns the folder for the sockets of a server at home: a folder in home or, when that path cannot be
// a socket's, one in the temporary folder whose name depends on home alone, so that a server keeps its address when it
// is started again.
func socketFolder(home string, as identity) (string, error) {
	sum := sha256.Sum256([]byte(home))
	short := fmt.Sprintf("fencegate-%d-%s", os.Geteuid(), hex.EncodeToString(sum[:8]))
	for _, dir := range []string{filepath.Join(home, "run"), filepath.Join(os.TempDir(), short), filepath.Join("/tmp", short)} {
		// libpq and pgx split a host at commas, and PostgreSQL reads quotes in its list of folders.
		if len(dir) > maxSocketFolder || strings.ContainsAny(dir, `,"`) {
			continue
		}
		if err := ownFolder(dir, as); err != nil {
			return "", fmt.Errorf("socket folder: %w", err)
		}
		return dir, nil
	}
	return "", fmt.Errorf("no folder for the sockets of %s has a path of at most %d bytes", home, maxSocketFolder)
}

// ownFolder makes dir, for the server alone. The temporary folder is everybody's, so a dir that is there already has
// to be a folder of ours.
func ownFolder(dir string, as identity) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || owner(info) != os.Geteuid() && owner(info) != as.uid() {
		return fmt.Errorf("%s is not a folder of ours", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	return as.own(dir)
}
