package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/internal/load"
)

// requestTimeout bounds one request.
const requestTimeout = 20 * time.Second

// request is one as it is sent.
type request struct {
	method, path string
	header, body []byte
}

// dialect makes requests of writes.
type dialect interface {
	// append fills a request, whose buffers it may use again.
	append(r *request, d *dataset, w write)
}

// overHTTP writes over connections that are kept, one for each client and server.
type overHTTP struct {
	on       *dataset
	dialect  dialect
	clients  []httpClient
	choosing []*rand.Rand // of the server, by client
}

type httpClient struct {
	conns []*load.Conn // to each server
	request
}

func openHTTP(d *dataset, how dialect, servers func() []*child) opener {
	return func(ctx context.Context, b *bench, clients int) (_ session, err error) {
		h := &overHTTP{on: d, dialect: how, clients: make([]httpClient, clients)}
		for i := range h.clients {
			for _, s := range servers() {
				conn, err := load.Dial(ctx, s.address)
				if err != nil {
					h.close()
					return nil, err
				}
				h.clients[i].conns = append(h.clients[i].conns, conn)
			}
			h.choosing = append(h.choosing, rand.New(rand.NewPCG(b.seed, uint64(i))))
		}
		return h, nil
	}
}

func (h *overHTTP) write(_ context.Context, client int, w write) error {
	c := &h.clients[client]
	h.dialect.append(&c.request, h.on, w)
	conn := c.conns[0]
	if len(c.conns) > 1 {
		conn = c.conns[h.choosing[client].IntN(len(c.conns))]
	}
	status, body, err := conn.Do(c.method, c.path, c.header, c.body, requestTimeout)
	switch {
	case err != nil:
		return err
	case w.stale && status == http.StatusPreconditionFailed && bytes.Contains(body, []byte(`"stale-token"`)):
		return nil
	case w.stale || status != http.StatusOK || !tells(body, w.balance):
		return fmt.Errorf("%s %s, balance %d, token %d (to be refused: %t): %d %.300s", c.method, c.path, w.balance, w.token, w.stale, status, body)
	}
	return nil
}

func (h *overHTTP) close() {
	for _, c := range h.clients {
		for _, conn := range c.conns {
			_ = conn.Close() // nothing is under way
		}
	}
}

// tells reports whether a row in JSON has this balance, as a number or in quotes.
func tells(body []byte, balance int64) bool {
	var digits [20]byte
	want := strconv.AppendInt(digits[:0], balance, 10)
	_, rest, found := bytes.Cut(body, []byte(`"balance":`))
	rest = bytes.TrimPrefix(bytes.TrimPrefix(rest, []byte(" ")), []byte(`"`))
	if !found || !bytes.HasPrefix(rest, want) || len(rest) == len(want) {
		return false
	}
	after := rest[len(want)]
	return after == ',' || after == '}' || after == '"' || after == '\n'
}

// fenced is a PATCH as fencegate takes it.
type fenced struct{}

func (fenced) append(r *request, d *dataset, w write) {
	r.method = http.MethodPatch
	path := append(make([]byte, 0, 64), "/v1/rows/"...)
	path = append(path, d.table...)
	for i, part := range d.key(w.row) {
		path = append(path, "/,"[min(i, 1)])
		path = strconv.AppendInt(path, part, 10)
	}
	r.path = string(path)
	r.header = append(r.header[:0], "Content-Type: application/json\r\nX-Fence-Token: "...)
	r.header = strconv.AppendInt(r.header, int64(w.token), 10)
	r.header = append(r.header, "\r\n"...)
	r.body = appendBalance(r.body[:0], w)
}

// plain is a PATCH of a row by its id, under a path of the server's.
type plain struct{ path string }

func (p plain) append(r *request, _ *dataset, w write) {
	r.method = http.MethodPatch
	r.path = p.path + strconv.FormatInt(w.row, 10)
	r.header = append(r.header[:0], "Content-Type: application/json\r\n"...)
	r.body = appendBalance(r.body[:0], w)
}

func appendBalance(body []byte, w write) []byte {
	body = append(body, `{"balance":`...)
	body = strconv.AppendInt(body, w.balance, 10)
	return append(body, '}')
}

// graphql is the mutation that PostGraphile makes of the table, with the id and the balance as variables.
type graphql struct{}

func (graphql) append(r *request, _ *dataset, w write) {
	r.method, r.path = http.MethodPost, "/graphql"
	r.header = append(r.header[:0], "Content-Type: application/json\r\nAccept: application/json\r\n"...)
	r.body = append(r.body[:0], `{"query":"mutation W($id:BigInt!,$balance:BigInt!){updateWalletByRowId(input:{rowId:$id,walletPatch:{balance:$balance}}){wallet{rowId balance owner note}}}","variables":{"id":"`...)
	r.body = strconv.AppendInt(r.body, w.row, 10)
	r.body = append(r.body, `","balance":"`...)
	r.body = strconv.AppendInt(r.body, w.balance, 10)
	r.body = append(r.body, `"}}`...)
}
