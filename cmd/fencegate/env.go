package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// setting is a variable of the environment.
type setting struct{ name, value string }

// writeEnv leaves the settings that a shell needs in <dir>/env, readable by its owner only. It appears whole or not at
// all.
func writeEnv(dir string, settings []setting) error {
	var content strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&content, "export %s=%s\n", s.name, shellQuote(s.value))
	}
	tmp, err := os.CreateTemp(dir, ".env-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write the env file: %w", err)
	}
	_, err = tmp.WriteString(content.String())
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
