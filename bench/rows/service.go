package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// serviceArg is the only argument when this program is to be the service without fencing.
	serviceArg = "serve-unfenced"
	// serviceURL is the variable in which that service finds its database.
	serviceURL = "BENCH_DATABASE_URL"
)

// wallet is a row.
type wallet struct {
	ID      int64  `json:"id"`
	Balance int64  `json:"balance"`
	Owner   string `json:"owner"`
	Note    string `json:"note"`
}

// serveUnfenced is the service that a user would write without fencing: a router, a pool, an UPDATE. It ends with its
// standard input.
func serveUnfenced(ctx context.Context, in io.Reader, out io.Writer) error {
	pool, err := pgxpool.New(ctx, os.Getenv(serviceURL))
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	router := chi.NewRouter()
	router.Patch("/wallets/{id}", patchWallet(pool))
	server := &http.Server{Handler: router, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = server.Close()
	}()
	fmt.Fprintf(out, "ready on http://%s\n", l.Addr())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func patchWallet(pool *pgxpool.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(chi.URLParam(r, "id"), 10, 64)
		if err != nil {
			http.Error(w, "the id is no number", http.StatusBadRequest)
			return
		}
		var change struct {
			Balance int64 `json:"balance"`
		}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&change); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var row wallet
		err = pool.QueryRow(r.Context(), "UPDATE wallets SET balance = $2 WHERE id = $1 RETURNING id, balance, owner, note", id, change.Balance).
			Scan(&row.ID, &row.Balance, &row.Owner, &row.Note)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			http.Error(w, "there is no such wallet", http.StatusNotFound)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(row)
	}
}
