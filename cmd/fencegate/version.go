package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker of release and image builds (-X main.version=v1.2.3), which may have no repository to
// take it from.
var version string

type versionCmd struct{}

// Run prints the version, the revision it was built from, and Go's.
func (versionCmd) Run(std *streams) error {
	_, err := fmt.Fprintf(std.out, "fencegate %s %s %s/%s\n", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// programVersion is the version and, where it is known, the revision.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "(devel)")
	}
	v := cmp.Or(version, info.Main.Version, "(devel)")
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value
		}
	}
	return v
}
