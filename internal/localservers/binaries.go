package localservers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldestPostgres is the oldest major version the ledger runs on.
const oldestPostgres = 14

// MissingError says that a program is not installed, and how to install it.
type MissingError struct {
	Program  string
	Apt      string
	Homebrew string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed: apt-get install %s (Debian, Ubuntu) or brew install %s (Homebrew)", e.Program, e.Apt, e.Homebrew)
}

// postgresBinaries is an installed PostgreSQL.
type postgresBinaries struct {
	folder string
	major  int
}

func (b postgresBinaries) program(name string) string { return filepath.Join(b.folder, name) }

// findPostgres returns the PostgreSQL of a major version or, when that is 0, the first of those on PATH, the newest of
// Debian's and Homebrew's.
func findPostgres(ctx context.Context, major int) (postgresBinaries, error) {
	var seen []string
	for _, folder := range postgresFolders() {
		b, ok := postgresIn(ctx, folder)
		if ctx.Err() != nil {
			return postgresBinaries{}, ctx.Err()
		}
		if !ok {
			continue
		}
		if b.major == major || major == 0 && b.major >= oldestPostgres {
			return b, nil
		}
		seen = append(seen, strconv.Itoa(b.major))
	}
	if len(seen) == 0 {
		return postgresBinaries{}, &MissingError{Program: "PostgreSQL's server", Apt: "postgresql", Homebrew: "postgresql@17"}
	}
	if major == 0 {
		return postgresBinaries{}, fmt.Errorf("PostgreSQL %d or newer is needed, found %s", oldestPostgres, strings.Join(seen, ", "))
	}
	return postgresBinaries{}, fmt.Errorf("the data was made by PostgreSQL %d, found %s: install postgresql-%d, or move the data with pg_dump", major, strings.Join(seen, ", "), major)
}

// matching returns b, or the PostgreSQL of the data's major version when b is of another. Data that is yet to be made has
// version 0.
func matching(ctx context.Context, b postgresBinaries, major int) (postgresBinaries, error) {
	if major == 0 || major == b.major {
		return b, nil
	}
	return findPostgres(ctx, major)
}

func postgresFolders() []string {
	folders := filepath.SplitList(os.Getenv("PATH"))
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
	} {
		// The patterns are well-formed.
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return firstNumber(b) - firstNumber(a) })
		folders = append(folders, found...)
	}
	return folders
}

func postgresIn(ctx context.Context, folder string) (postgresBinaries, bool) {
	b := postgresBinaries{folder: folder}
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(b.program(name)); err != nil || !filepath.IsAbs(folder) {
			return b, false
		}
	}
	out, err := exec.CommandContext(ctx, b.program("postgres"), "--version").Output()
	b.major = firstNumber(string(out))
	return b, err == nil && b.major > 0
}

// firstNumber returns the first run of digits in s as a number, 0 if there is none.
func firstNumber(s string) int {
	n, err := strconv.Atoi(regexp.MustCompile(`[0-9]+`).FindString(s))
	if err != nil {
		return 0
	}
	return n
}
