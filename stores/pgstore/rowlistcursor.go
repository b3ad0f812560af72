package pgstore

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// A cursor is base64url of its version, the first bytes of the digest that binds it to a query, and each value of the order in
// the last row: 0 for a null, else the length plus one and the text. It is neither secret nor signed: what a forged one says
// reaches PostgreSQL as parameters only, beside the conditions of a query that its sender may ask anyway.
const (
	cursorVersion = 1
	cursorDigest  = 8
	// maxCursor is how long one can be as text: it comes back in a URL.
	maxCursor = 16 << 10
)

// bound is the digest of what a cursor is good for: the binding of the table, the order and the filters. The columns that are
// shown and the limit may change from page to page.
func (l *listing) bound() []byte {
	parts := []string{"list", l.table.name, strconv.FormatInt(l.table.version, 10)}
	for _, o := range l.order {
		parts = append(parts, o.column.name, o.column.base, strconv.FormatBool(o.descending), strconv.FormatBool(o.nullsFirst))
	}
	var filters []string
	for _, f := range l.filters {
		d := fence.DigestOf(append([]string{f.column.name, string(f.op)}, f.values...)...)
		filters = append(filters, string(d[:]))
	}
	slices.Sort(filters)
	d := fence.DigestOf(append(append(parts, "filters"), filters...)...)
	return d[:cursorDigest]
}

// cursor is where the page behind a row begins, given the row's values of the order.
func (l *listing) cursor(values []*string) (string, error) {
	b := append([]byte{cursorVersion}, l.digest...)
	for _, v := range values {
		if v == nil {
			b = binary.AppendUvarint(b, 0)
			continue
		}
		b = append(binary.AppendUvarint(b, uint64(len(*v))+1), *v...)
	}
	if base64.RawURLEncoding.EncodedLen(len(b)) > maxCursor {
		return "", fence.Errorf(fence.CodeInvalidRequest,
			"the rows cannot be paged in this order: the values that one is sorted by are longer than %d bytes together", maxCursor*3/4).In("order")
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// readCursor returns the values of a cursor. One of another query may be one of a table that was protected anew since its
// description was read: onTable looks again.
func readCursor(text string, digest []byte, columns int) ([]*string, error) {
	bad := fence.Wrap(fence.CodeInvalidRequest, errUnknownColumn,
		"after is the next of a page of this very query (table, filters and order): this is none").In("after")
	if len(text) > maxCursor || strings.ContainsAny(text, "\r\n") { // which the decoder passes over
		return nil, bad
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+cursorDigest || b[0] != cursorVersion || !bytes.Equal(b[1:1+cursorDigest], digest) {
		return nil, bad
	}
	b = b[1+cursorDigest:]
	values := make([]*string, columns)
	for i := range values {
		n, width := binary.Uvarint(b)
		if width <= 0 || n > uint64(len(b)-width)+1 {
			return nil, bad
		}
		b = b[width:]
		if n == 0 {
			continue
		}
		v := string(b[:n-1]) // of whatever bytes: PostgreSQL refuses those that are no text
		values[i], b = &v, b[n-1:]
	}
	if len(b) > 0 {
		return nil, bad
	}
	return values, nil
}
