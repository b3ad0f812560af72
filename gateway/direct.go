package gateway

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	// signedUpload and signedRead are how long requests to the store itself are good for.
	signedUpload = 15 * time.Minute
	signedRead   = 5 * time.Minute
)

// cutFlag takes a parameter without a value out of a query.
func cutFlag(raw, name string) (rest string, found bool) {
	var kept []string
	for _, pair := range strings.Split(raw, "&") {
		if pair == name {
			found = true
		} else if pair != "" {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&"), found
}

// signUpload answers a request with which the client stores a body itself. What it says of the body is signed: the store takes
// no other.
func (g *Gateway) signUpload(w http.ResponseWriter, r *http.Request, write fence.ObjectWrite) error {
	f, err := g.readFields(w, r, "size", "sha256", "header")
	if err != nil {
		return err
	}
	var size json.Number
	if raw, given := f["size"]; !given || raw[0] == '"' || json.Unmarshal(raw, &size) != nil {
		return fence.Errorf(fence.CodeInvalidRequest, "size is the length of the body in bytes").In("size")
	}
	if write.Size, err = size.Int64(); err != nil || write.Size < 0 {
		return fence.Errorf(fence.CodeInvalidRequest, "size is the length of the body in bytes").In("size")
	}
	if write.Size > g.cfg.MaxObject {
		return objectTooLarge(g.cfg.MaxObject)
	}
	sum, _, err := f.text("sha256")
	if err != nil {
		return err
	}
	if write.SHA256, err = hex.DecodeString(sum); err != nil || len(write.SHA256) != 32 {
		return fence.Errorf(fence.CodeInvalidRequest, "sha256 is the body's SHA-256, 64 digits of hex").In("sha256")
	}
	if raw, given := f["header"]; given {
		if err := g.headerField(raw, &write.Header); err != nil {
			return err
		}
	} else {
		write.Header.ContentType = defaultContentType
	}
	ctx, cancel := detached(r, g.cfg.WriteTimeout)
	defer cancel()
	up, signed, err := g.cfg.Objects.SignUpload(ctx, write, signedUpload)
	if err != nil {
		return err
	}
	headers := map[string]string{}
	for name, values := range signed.Header {
		headers[name] = strings.Join(values, ", ")
	}
	respondJSON(w, http.StatusCreated, struct {
		Blob      string            `json:"blob"`
		Bucket    string            `json:"bucket"`
		Size      int64             `json:"size"`
		SHA256    string            `json:"sha256"`
		Method    string            `json:"method"`
		URL       string            `json:"url"`
		Headers   map[string]string `json:"headers"`
		ExpiresAt time.Time         `json:"expires_at"`
	}{up.ID, up.Bucket, up.Size, up.SHA256, signed.Method, signed.URL, headers, signed.ExpiresAt.UTC()})
	return nil
}

// redirect sends a reader to the store, where it wants that or the bucket says so, and the store can. It reports whether it did.
func (g *Gateway) redirect(w http.ResponseWriter, r *http.Request, o foundObject) (bool, error) {
	wanted, prefers := o.Options.Redirect, preferred(r.Header, "redirect")
	if prefers || preferred(r.Header, "stream") {
		wanted = prefers
	}
	if !wanted || r.Method != http.MethodGet || o.Size == 0 {
		return false, nil
	}
	signed, ok, err := g.cfg.Objects.SignRead(r.Context(), o.Object, signedRead)
	if err != nil || !ok {
		return false, withState(err, o.State)
	}
	h := w.Header()
	setState(h, o.State)
	h.Set("ETag", o.validator.entityTag())
	h.Set("Cache-Control", "no-store")
	h.Set("Location", signed.URL)
	if prefers {
		h.Set("Preference-Applied", "redirect")
	}
	w.WriteHeader(http.StatusTemporaryRedirect)
	return true, nil
}
