package localservers

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// programFolder makes the test binary play a program that starts servers on the folder it names and waits to be killed.
const programFolder = "FENCEGATE_TEST_PROGRAM_FOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(programFolder); dir != "" {
		os.Exit(program(dir))
	}
	goleak.VerifyTestMain(m)
}

func program(dir string) int {
	s, err := Start(context.Background(), Config{Dir: dir})
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(s.DatabaseURL())
	<-s.Done()
	return 1
}
