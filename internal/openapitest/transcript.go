// Package openapitest checks the document that the gateway answers at /openapi.json with a validator of others', and the gateway's
// transcripts against the document. It is a module of its own, so that the validator stays out of what the gateway is made of.
package openapitest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Exchange is a request and what was answered.
type Exchange struct {
	About    string
	Request  *http.Request
	Response *http.Response
}

// ReadTranscript reads exchanges as the gateway's tests write them: "# about", then lines that begin with "> " of the request and
// with "< " of the answer.
func ReadTranscript(text string) ([]Exchange, error) {
	var found []Exchange
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n# ") {
		about, rest, _ := strings.Cut(strings.TrimPrefix(part, "# "), "\n")
		var sent, answered []string
		for line := range strings.SplitSeq(rest, "\n") {
			if request, ok := strings.CutPrefix(line, ">"); ok {
				sent = append(sent, strings.TrimPrefix(request, " "))
			} else if answer, ok := strings.CutPrefix(line, "<"); ok {
				answered = append(answered, strings.TrimPrefix(answer, " "))
			}
		}
		e, err := exchange(sent, answered)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", about, err)
		}
		e.About = about
		found = append(found, e)
	}
	return found, nil
}

func exchange(sent, answered []string) (Exchange, error) {
	if len(sent) == 0 || len(answered) == 0 {
		return Exchange{}, fmt.Errorf("no request, or no answer")
	}
	header, body := split(sent[1:])
	method, target, _ := strings.Cut(sent[0], " ")
	path, query, _ := strings.Cut(target, "?")
	request, err := http.NewRequest(method, "http://gateway.test", strings.NewReader(body))
	if err != nil {
		return Exchange{}, err
	}
	request.Header, request.URL.RawQuery = header, query
	if request.URL.Path, err = url.PathUnescape(path); err != nil {
		return Exchange{}, err
	}
	request.URL.RawPath = inOne(path)
	if strings.HasPrefix(body, "{") && header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	header, body = split(answered[1:])
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader("HTTP/1.1 "+answered[0]+"\r\n\r\n")), request)
	if err != nil {
		return Exchange{}, err
	}
	// Where the transcript masks what differs each time, something of its form.
	for name := range header {
		if name == "X-Trace-Id" {
			header.Set(name, "4bf92f3577b34da6a3ce929d0e0e4736")
		}
	}
	response.Header, response.Body = header, io.NopCloser(bytes.NewReader([]byte(body)))
	return Exchange{Request: request, Response: response}, nil
}

// inOne writes the slashes of an object's key as %2F: a parameter of a path template has none.
func inOne(path string) string {
	for _, prefix := range []string{"/v1/objects/", "/v1/marks/objects/", "/v1/versions/"} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			bucket, key, _ := strings.Cut(rest, "/")
			return prefix + bucket + "/" + strings.ReplaceAll(key, "/", "%2F")
		}
	}
	return path
}

func split(lines []string) (http.Header, string) {
	h := http.Header{}
	for i, line := range lines {
		if line == "" {
			return h, strings.Join(lines[i+1:], "\n")
		}
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h, ""
}
