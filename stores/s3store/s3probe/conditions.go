package s3probe

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	ifNoneMatch = "PUT with If-None-Match"
	ifMatch     = "PUT with If-Match"
	oneCreator  = "If-None-Match is atomic"
	oneReplacer = "If-Match is atomic"

	rounds = 3
	racers = 16
)

func (s *session) putIfAbsent(ctx context.Context, key string, body []byte) error {
	_, err := s.put(ctx, key, body, func(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") }, once)
	return err
}

func (s *session) putIfMatch(ctx context.Context, key string, body []byte, etag *string) error {
	_, err := s.put(ctx, key, body, func(in *s3.PutObjectInput) { in.IfMatch = etag }, once)
	return err
}

func tryConditions(ctx context.Context, t *trial) error {
	key, body := t.key("if-none-match"), random(100)
	outcome, note, err := contrast(
		func() error { return t.putIfAbsent(ctx, key, body) },
		func() error { return t.putIfAbsent(ctx, key, random(100)) },
	)
	if err != nil {
		return err
	}
	if outcome == Honours {
		wrong, err := t.differs(ctx, key, body)
		if err != nil {
			return err
		}
		if wrong != "" {
			outcome, note = Wrong, "refused, and yet "+wrong
		}
	}
	t.find(ifNoneMatch, outcome, note)

	key = t.key("if-match")
	first, err := t.put(ctx, key, random(100), nil)
	if err != nil {
		return err
	}
	outcome, note, err = contrast(
		func() error { return t.putIfMatch(ctx, key, body, first.ETag) },
		func() error { return t.putIfMatch(ctx, key, random(100), first.ETag) },
	)
	if err != nil {
		return err
	}
	if outcome == Honours {
		wrong, err := t.differs(ctx, key, body)
		if err != nil {
			return err
		}
		if wrong != "" {
			outcome, note = Wrong, "refused, and yet "+wrong
		}
	}
	t.find(ifMatch, outcome, note)
	return nil
}

// tryRaces has writers meet at a key that is absent, and at one that all of them saw in the same state. One of them
// should succeed, and its bytes be there.
func tryRaces(ctx context.Context, t *trial) error {
	for _, race := range []struct {
		name string
		prep func(key string) (func(body []byte) error, error)
	}{
		{oneCreator, func(key string) (func([]byte) error, error) {
			return func(body []byte) error { return t.putIfAbsent(ctx, key, body) }, nil
		}},
		{oneReplacer, func(key string) (func([]byte) error, error) {
			first, err := t.put(ctx, key, random(100), nil)
			if err != nil {
				return nil, err
			}
			return func(body []byte) error { return t.putIfMatch(ctx, key, body, first.ETag) }, nil
		}},
	} {
		outcome, note, err := t.race(ctx, race.name, race.prep)
		if err != nil {
			return err
		}
		t.find(race.name, outcome, note)
	}
	return nil
}

func (t *trial) race(ctx context.Context, name string, prep func(key string) (func([]byte) error, error)) (Outcome, string, error) {
	for round := range rounds {
		key := t.key(fmt.Sprintf("race/%s/%d", plain(name), round))
		write, err := prep(key)
		if err != nil {
			return NotMeasured, "", err
		}
		bodies, answers := runRace(write)
		var won [][]byte
		for i, err := range answers {
			switch {
			case err == nil:
				won = append(won, bodies[i])
			case unknownToIt(err):
				return Refuses, brief(err), nil
			case !saysNo(err):
				return NotMeasured, "", err
			}
		}
		if len(won) > 1 {
			return Wrong, fmt.Sprintf("%d of %d writers at once succeeded", len(won), racers), nil
		}
		if len(won) == 0 {
			return Refuses, fmt.Sprintf("none of %d writers at once succeeded: %s", racers, brief(answers[0])), nil
		}
		got, err := t.get(ctx, key, "", len(won[0]))
		if err != nil {
			return NotMeasured, "", err
		}
		if !bytes.Equal(got, won[0]) {
			return Wrong, "the bytes are not those of the writer that succeeded", nil
		}
	}
	return Honours, fmt.Sprintf("%d rounds of %d writers", rounds, racers), nil
}

// runRace returns what each writer wrote, and its answer.
func runRace(write func(body []byte) error) (bodies [][]byte, answers []error) {
	bodies, answers = make([][]byte, racers), make([]error, racers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range racers {
		bodies[i] = random(100)
		wg.Go(func() {
			<-start
			answers[i] = write(bodies[i])
		})
	}
	close(start)
	wg.Wait()
	return bodies, answers
}
