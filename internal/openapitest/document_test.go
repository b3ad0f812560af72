package openapitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	testdata = "../../gateway/testdata"
	// ofTypes has a table with columns of every type, and what PostgreSQL answers.
	ofTypes = "../../stores/pgstore/testdata"
)

func text(t *testing.T, folder string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDocumentIsOpenAPI(t *testing.T) {
	if _, err := Parse(text(t, ofTypes)); err != nil {
		t.Error(err)
	}
	valid := text(t, testdata)
	d, err := Parse(valid)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for path, item := range d.at("/paths").(map[string]any) {
		operations := item.(map[string]any)
		declared, _ := operations["parameters"].([]any)
		if strings.Count(path, "{") != len(declared) {
			t.Errorf("%s has %d parameters", path, len(declared))
		}
		for i := range declared {
			_, p := d.follow("/paths/" + escape(path) + "/parameters/" + string(rune('0'+i)))
			if p["in"] != "path" || !strings.Contains(path, "{"+p["name"].(string)+"}") {
				t.Errorf("%s has the parameter %v", path, p)
			}
		}
		for _, op := range operations {
			if o, ok := op.(map[string]any); ok && o["operationId"] != nil {
				id := o["operationId"].(string)
				if ids[id] {
					t.Errorf("the operation id %s is used twice", id)
				}
				ids[id] = true
			}
		}
	}
	for name, change := range map[string][2]string{
		"Place":     {`"in": "header"`, `"in": "road"`},
		"Reference": {`components/headers/ETag"`, `components/headers/Gone"`},
		"Schema":    {`"minLength": 1`, `"minLength": -1`},
		"Response":  {`"responses": {`, `"answers": {`},
		"Version":   {`"openapi": "3.1`, `"openapi": "3.0`},
	} {
		if broken := strings.Replace(valid, change[0], change[1], 1); broken == valid {
			t.Errorf("%s: nothing was broken", name)
		} else if _, err := Parse(broken); err == nil {
			t.Errorf("%s: a document that is no OpenAPI is valid", name)
		}
	}
}

func TestTranscriptsAreAsDescribed(t *testing.T) {
	for folder, least := range map[string]struct{ files, accepted int }{testdata: {7, 30}, ofTypes: {1, 8}} {
		asDescribed(t, folder, least.files, least.accepted)
	}
}

func asDescribed(t *testing.T, folder string, leastFiles, leastAccepted int) {
	t.Helper()
	d, err := Parse(text(t, folder))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.golden"))
	if err != nil || len(files) < leastFiles {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	checked := 0
	for _, file := range files {
		for _, e := range exchanges(t, file) {
			name := strings.TrimSuffix(filepath.Base(file), ".golden") + ": " + e.About
			if err := d.CheckResponse(e.Response); err != nil && !unknown(e) {
				t.Errorf("%s: the answer to %s %s: %v", name, e.Request.Method, e.Request.URL.EscapedPath(), err)
			}
			if e.Response.StatusCode < 300 {
				checked++
				if err := d.CheckRequest(e.Request); err != nil {
					t.Errorf("%s: the request %s %s: %v", name, e.Request.Method, e.Request.URL.EscapedPath(), err)
				}
			}
		}
	}
	if checked < leastAccepted {
		t.Errorf("only %d accepted requests were checked", checked)
	}
}

// unknown reports whether the request is one for what there is not, which the document does not describe.
func unknown(e Exchange) bool {
	return e.About == "wrong method" || e.About == "wrong path" || e.About == "a write of what passes a filter" || e.About == "a write of all rows"
}

func exchanges(t *testing.T, file string) []Exchange {
	t.Helper()
	transcript, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found, err := ReadTranscript(string(transcript))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return found
}

// What is not as described is found.
func TestDeviationsAreFound(t *testing.T) {
	d, err := Parse(text(t, testdata))
	if err != nil {
		t.Fatal(err)
	}
	const good = "# one\n> PATCH /v1/rows/wallets/1?\n> X-Fence-Token: 1000\n> Content-Type: application/json\n>\n> {\"owner\":\"ann\"}\n" +
		"< 200 OK\n< Etag: \"1000\"\n< Content-Type: application/json\n<\n< {\"owner\":\"ann\"}\n"
	check := func(transcript string) error {
		found, err := ReadTranscript(transcript)
		if err != nil {
			return err
		}
		if err := d.CheckRequest(found[0].Request); err != nil {
			return err
		}
		return d.CheckResponse(found[0].Response)
	}
	if err := check(good); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"/v1/rows/wallets/1", "/v1/row/wallets/1"}, {"PATCH", "POST"}, {"1?", "1?owner=eq.ann"}, {"X-Fence-Token: 1000", "X-Fence-Token: 0"}, {"> X-Fence-Token: 1000\n", ""},
		{`{"owner":"ann"}`, `{}`}, {"200 OK", "202 Accepted"}, {`Etag: "1000"`, "Etag: 1000"}, {"> Content-Type: application/json", "> Content-Type: text/plain"},
		{"< {\"owner\":\"ann\"}", "< [1]"}, {"< Content-Type: application/json", "< Content-Type: text/html"}, {"200 OK", "204 No Content"},
		{"/v1/rows/wallets/1", "/v1/rows/public.wallets/1"}, // that one shows all its columns
	} {
		if broken := strings.Replace(good, change[0], change[1], 1); broken == good || check(broken) == nil {
			t.Errorf("%s is taken for %s", change[1], change[0])
		}
	}
}
