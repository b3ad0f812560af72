// Package composetest checks the files by which fencegate is deployed: docker-compose.yml, Dockerfile and what they
// name. It is a module of its own, so that what reads those formats is no dependency of fencegate.
package composetest

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// Load reads docker-compose.yml of a folder as docker compose does with the variables given (NAME=value), and no
// others: neither this process's nor those of a file .env.
func Load(ctx context.Context, root string, variables ...string) (*types.Project, error) {
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")},
		cli.WithWorkingDirectory(root), cli.WithName("fencegate"), cli.WithEnv(variables), cli.WithResolvedPaths(true))
	if err != nil {
		return nil, fmt.Errorf("compose file in %s: %w", root, err)
	}
	project, err := options.LoadProject(ctx)
	if err != nil {
		return nil, fmt.Errorf("compose file in %s: %w", root, err)
	}
	return project, nil
}
