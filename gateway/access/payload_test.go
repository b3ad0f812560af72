package access

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// FuzzPayload: what is let pass is one JSON object that every reader reads alike.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{
		`{"iss":"a","sub":"b","x":[1,{"y":null}],"z":1e3}`, `{"a":1,"a":2}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud83d"}`, `{"a":"\\ud83d"}`, `{"a":"\u0000"}`,
		`{"a":1} {}`, `{`, `[]`, `{"a":`, `{"a":1,}`, `{"a" 1}`, "{\"a\":\"\xff\"}", `{"\udc00":1}`, `{"a":"\u00"}`, strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if checkPayload(text) != nil {
			return
		}
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil || object == nil {
			t.Fatalf("passed, and is no object: %v", err)
		}
		again, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var same map[string]any
		if err := json.Unmarshal(again, &same); err != nil || !reflect.DeepEqual(object, same) {
			t.Fatalf("%s is read as %s", text, again)
		}
		if checkPayload(again) != nil || strings.Contains(string(again), `\u0000`) && !strings.Contains(string(again), `\\u0000`) {
			t.Fatalf("%s passed, %s does not", text, again)
		}
	})
}

// FuzzKeys: no key set ends the program, and every key that is kept is for something.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"kty":"oct","k":"AA"}]}`))
	f.Add([]byte(`{"keys":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := parseKeys(text)
		if err != nil {
			return
		}
		for _, k := range set.keys {
			fits := 0
			for _, algorithm := range asymmetric() {
				if k.fits(algorithm) {
					fits++
				}
			}
			if fits == 0 || fits > 6 {
				t.Fatalf("%T fits %d algorithms", k.public, fits)
			}
		}
	})
}
