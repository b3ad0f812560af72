package s3probe

import (
	"context"
	"errors"
	"sync"
	"time"
)

// atOnce is how many probes run side by side: most of their time is the network's.
const atOnce = 4

// probe tries one thing, or several that take the same requests.
type probe struct {
	// finds are the names of its findings.
	finds []string
	// needed: they are what fencegate relies on.
	needed bool
	// try makes its requests. An error leaves what it did not find to explain.
	try func(ctx context.Context, t *trial) error
}

func probes() []probe {
	return []probe{
		{[]string{readBack}, true, tryReads},
		{[]string{rangedReads}, true, tryRanges},
		{[]string{emptyBlobs}, true, tryEmpty},
		{[]string{absentKeys}, true, tryAbsent},
		{[]string{deletes}, true, tryDeletes},
		{[]string{blobKeys}, true, tryKeys},
		{[]string{wrongBytes, wrongPart}, true, tryWrongBytes},
		{[]string{multipart}, true, tryMultipart},
		{[]string{abort}, true, tryAbort},
		{[]string{uploadList}, false, tryUploadList},
		{[]string{tornUploads}, false, tryTorn},
		{[]string{payloadHash, checksumSHA256, checksumCRC32C, checksumCRC64, contentMD5}, false, tryChecksums},
		{[]string{ifNoneMatch, ifMatch}, false, tryConditions},
		{[]string{oneCreator, oneReplacer}, false, tryRaces},
		{[]string{objectList}, false, tryList},
		{[]string{copies, copyIfMatch}, false, tryCopy},
		{[]string{presignedGet}, false, tryPresignedGet},
		{[]string{presignedPut, presignedLength, presignedSum}, false, tryPresignedPut},
		{[]string{unsigned}, false, tryUnsigned},
		{[]string{clock}, false, tryClock},
		{[]string{frees}, false, tryVersioning},
		{[]string{lifecycle}, false, tryLifecycle},
		{[]string{objectLock}, false, tryLock},
	}
}

// trial is a probe under way.
type trial struct {
	*session
	found map[string]Finding
	// needed is the probe's.
	needed bool
}

// find notes a finding.
func (t *trial) find(name string, o Outcome, note string) {
	t.found[name] = Finding{Name: name, Outcome: o, Note: note, Needed: t.needed}
}

// findNeeded notes a finding that fencegate's safety rests on whatever else the probe is about.
func (t *trial) findNeeded(name string, o Outcome, note string) {
	t.found[name] = Finding{Name: name, Outcome: o, Note: note, Needed: true}
}

// attend notes a finding that somebody should do something about.
func (t *trial) attend(name string, o Outcome, note string) {
	t.found[name] = Finding{Name: name, Outcome: o, Note: note, Attend: true}
}

// tryAll returns the findings in the order of the probes.
func (s *session) tryAll(ctx context.Context, probes []probe) []Finding {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	found := make([][]Finding, len(probes))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, p := range probes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			found[i] = s.tryOne(ctx, p)
		})
	}
	wg.Wait()
	var all []Finding
	for _, f := range found {
		all = append(all, f...)
	}
	return all
}

func (s *session) tryOne(ctx context.Context, p probe) (all []Finding) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ProbeTimeout)
	defer cancel()
	t := &trial{session: s, found: make(map[string]Finding), needed: p.needed}
	err := ctx.Err()
	if err == nil {
		began := time.Now()
		err = p.try(ctx, t)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = noAnswer(time.Since(began))
		}
	}
	if err != nil && statusOf(err) == 0 {
		s.cut.Store(true)
	}
	for _, name := range p.finds {
		f, ok := t.found[name]
		if !ok {
			f = Finding{Name: name, Outcome: unexplained(err, p.needed), Note: brief(err), Needed: p.needed}
		}
		all = append(all, f)
	}
	return all
}
