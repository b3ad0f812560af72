package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// respond writes v as JSON. Answers are about a moment, and some hold a grant's id: no cache may keep them.
func respond(w http.ResponseWriter, status int, contentType string, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// What is answered are structs of ours and JSON that a backend made; to answer half of it would be worse.
		panic(err)
	}
	respondBytes(w, status, contentType, b.Bytes())
}

func respondBytes(w http.ResponseWriter, status int, contentType string, parts ...[]byte) {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	setHeaders(w.Header(), [][2]string{{"Content-Type", contentType}, {"Cache-Control", "no-store"}, {"Content-Length", strconv.Itoa(size)}})
	w.WriteHeader(status)
	for _, part := range parts {
		// An error means that the client is gone, and the outcome stands.
		_, _ = w.Write(part)
	}
}

// setHeaders sets headers whose names are in their canonical form.
func setHeaders(h http.Header, headers [][2]string) {
	values := make([]string, len(headers))
	for i, header := range headers {
		values[i] = header[1]
		h[header[0]] = values[i : i+1 : i+1]
	}
}

// respondRaw writes JSON that a backend made, byte for byte as it is.
func respondRaw(w http.ResponseWriter, status int, body json.RawMessage) {
	respondBytes(w, status, "application/json", body, []byte("\n"))
}

func respondJSON(w http.ResponseWriter, status int, v any) { respond(w, status, "application/json", v) }
