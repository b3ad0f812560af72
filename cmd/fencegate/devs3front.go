package main

import (
	"context"
	"crypto/rand"
	"net"
)

// devFront is the S3 front of fencegate dev, with a key pair of its own; the zero one is none.
type devFront struct {
	listener net.Listener
	key      oneKey
}

// openS3Front opens the front's listener, if the flag asks for one.
func (c *devCmd) openS3Front(ctx context.Context) (devFront, error) {
	if c.S3FrontListen == "" {
		return devFront{}, nil
	}
	if !hasS3Front {
		return devFront{}, errNoS3Front()
	}
	l, err := listenLoopback(ctx, "--s3-front-listen", c.S3FrontListen)
	return devFront{listener: l, key: oneKey{access: "FENCEGATE-" + rand.Text()[:10], secret: rand.Text() + rand.Text()}}, err
}

func (f devFront) keys() s3Keys {
	if f.listener == nil {
		return nil
	}
	return f.key
}

// settings are what S3's clients need to know.
func (f devFront) settings(s *server) []setting {
	if f.listener == nil {
		return nil
	}
	return []setting{{"FENCEGATE_S3_FRONT_URL", s.s3URL()}, {"FENCEGATE_S3_FRONT_ACCESS_KEY", f.key.access}, {"FENCEGATE_S3_FRONT_SECRET_KEY", f.key.secret}}
}

func (f devFront) close() {
	if f.listener != nil {
		f.listener.Close()
	}
}
