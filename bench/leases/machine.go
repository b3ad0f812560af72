package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// load is the machine's load average over the last minute, empty where it is not to be had.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

func machine(before, after string) string {
	s := fmt.Sprintf("%s, %d CPUs", runtime.Version(), runtime.NumCPU())
	if before != "" {
		s += fmt.Sprintf(", load %s before and %s after", before, after)
	}
	return s
}
