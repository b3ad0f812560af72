package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeEnv leaves the settings that a shell needs in <dir>/env, readable by its owner only. It appears whole or not at
// all.
func writeEnv(dir, url, databaseURL, redisURL string) error {
	content := fmt.Sprintf("export FENCEGATE_URL=%s\nexport FENCEGATE_DATABASE_URL=%s\nexport FENCEGATE_REDIS_URL=%s\n",
		shellQuote(url), shellQuote(databaseURL), shellQuote(redisURL))
	tmp, err := os.CreateTemp(dir, ".env-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write the env file: %w", err)
	}
	_, err = tmp.WriteString(content)
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, "env"))
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("write the env file: %w", err)
	}
	return nil
}

func shellQuote(s string) string {
	if !strings.ContainsAny(s, " \t\n\"'\\$&|;<>()*?#~`!{}[]") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
