package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/access"
)

// s3FrontFlag opens the gateway to S3's clients.
type s3FrontFlag struct {
	S3FrontListen string `name:"s3-front-listen" env:"FENCEGATE_S3_FRONT_LISTEN" placeholder:"ADDR" help:"Serve objects to S3's clients on this address, too; port 0 takes a free one."`
}

// s3FrontFlags say besides who signs, where nobody else is asked who he is.
type s3FrontFlags struct {
	s3FrontFlag
	S3FrontAccessKey string `name:"s3-front-access-key" env:"FENCEGATE_S3_FRONT_ACCESS_KEY" secret:"" placeholder:"KEY" help:"Access key of the S3 front without --auth-file, whose s3_keys name those of principals."`
	S3FrontSecretKey string `name:"s3-front-secret-key" env:"FENCEGATE_S3_FRONT_SECRET_KEY" secret:"" placeholder:"KEY" help:"Secret key of the S3 front without --auth-file."`
}

// keys are what the front's requests are signed with.
type s3Keys interface {
	Key(access string) (secret string, caller gateway.Caller, found bool)
	NoteFailed()
}

// oneKey is the key pair of a gateway that asks nobody who he is.
type oneKey struct{ access, secret string }

// Key returns the one secret, for a caller who may do everything.
func (k oneKey) Key(access string) (secret string, caller gateway.Caller, found bool) {
	if access != k.access {
		return "", nil, false
	}
	return k.secret, gateway.Everybody{}, true
}

// NoteFailed counts nothing: there is nobody to tell.
func (oneKey) NoteFailed() {}

func (k oneKey) validate() error {
	if err := access.CheckAccessKey(k.access); err != nil {
		return fmt.Errorf("--s3-front-access-key: %w", err)
	}
	if err := access.CheckSecretKey(k.secret); err != nil {
		return fmt.Errorf("--s3-front-secret-key: %w", err)
	}
	return nil
}

// listen opens the front's listener and says who signs; both are nil without the flag.
func (f s3FrontFlags) listen(ctx context.Context, g *guard) (net.Listener, s3Keys, error) {
	switch {
	case f.S3FrontListen == "":
		return nil, nil, nil
	case !hasS3Front:
		return nil, nil, errNoS3Front()
	case g.authenticates() && (f.S3FrontAccessKey != "" || f.S3FrontSecretKey != ""):
		return nil, nil, errors.New("--s3-front-access-key and --s3-front-secret-key are for a gateway without --auth-file: with one, the S3 keys are those of its principals (s3_keys)")
	case g.authenticates():
		l, err := listen(ctx, "--s3-front-listen", f.S3FrontListen)
		if err != nil {
			return nil, nil, err
		}
		return g.listener(l), g.auth, nil
	}
	key := oneKey{f.S3FrontAccessKey, f.S3FrontSecretKey}
	if err := key.validate(); err != nil {
		return nil, nil, err
	}
	l, err := listenLoopback(ctx, "--s3-front-listen", f.S3FrontListen)
	return l, key, err
}

func errNoS3Front() error {
	return errors.New("--s3-front-listen: this program was built without the S3 front (build tag nos3)")
}
