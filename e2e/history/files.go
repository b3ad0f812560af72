package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

const runFile = "run.json"

// Save writes the run into a folder, so that it can be checked again.
func (r *Run) Save(dir string) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("save the run: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, runFile), content, 0o600)
}

// Load reads what Save wrote.
func Load(dir string) (*Run, error) {
	content, err := os.ReadFile(filepath.Join(dir, runFile))
	if err != nil {
		return nil, err
	}
	r := &Run{}
	if err := json.Unmarshal(content, r); err != nil {
		return nil, fmt.Errorf("read the run of %s: %w", dir, err)
	}
	return r, nil
}
