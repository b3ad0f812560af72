package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

// uploaderURL is set for the copy of the test binary that is an uploader.
const uploaderURL = "FENCEGATE_E2E_UPLOADER_URL"

// uploadSize is several times what all buffers between uploader and blob hold.
const uploadSize = 8 << 20

// uploaderMain is a worker in a process of its own, so that it can be stopped for real. It sends half of a body, tells
// so with a line, waits for a line, sends the rest and tells the answer.
func uploaderMain(url string) int {
	body, feed := io.Pipe()
	go func() {
		half := make([]byte, uploadSize/2)
		for i := range half {
			half[i] = 'a'
		}
		_, _ = feed.Write(half)
		fmt.Println("half")
		bufio.NewScanner(os.Stdin).Scan()
		_, _ = feed.Write(half)
		feed.Close()
	}()
	// No length is known of a pipe: the body goes out in chunks.
	req, err := http.NewRequest(http.MethodPut, url, body)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	req.Header.Set("X-Fence-Token", os.Getenv("FENCEGATE_E2E_TOKEN"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer resp.Body.Close()
	var p struct {
		Code string `json:"code"`
	}
	content, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(content, &p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(resp.StatusCode, p.Code)
	return 0
}
