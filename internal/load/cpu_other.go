//go:build !linux

package load

import (
	"errors"
	"time"
)

// SelfCPU is known on Linux only; elsewhere the error is errors.ErrUnsupported.
func SelfCPU() (time.Duration, error) { return 0, errors.ErrUnsupported }

// ProcessCPU is known on Linux only; elsewhere the error is errors.ErrUnsupported.
func ProcessCPU(...int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// TreeCPU is known on Linux only; elsewhere the error is errors.ErrUnsupported.
func TreeCPU(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// ResidentMemory is known on Linux only; elsewhere the error is errors.ErrUnsupported.
func ResidentMemory(int) (int64, error) { return 0, errors.ErrUnsupported }
