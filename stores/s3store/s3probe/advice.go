package s3probe

// advise returns what follows from a report for those who run or use the store, beyond its findings.
func advise(r Report, prefix string) []string {
	var all []string
	is := func(name string, outcomes ...Outcome) bool {
		f, ok := r.Finding(name)
		for _, o := range outcomes {
			if ok && f.Outcome == o {
				return true
			}
		}
		return false
	}
	if is(oneCreator, Wrong, Ignores, Refuses) || is(oneReplacer, Wrong, Ignores, Refuses) {
		all = append(all, "Build no locks on conditional writes to this store. fencegate does not use them.")
	}
	all = append(all, "If-Match in place is no fencing on any store: an ETag is a hash of the bytes, so a writer that stalled succeeds once the same bytes are back.")
	if is(tornUploads, Wrong) {
		all = append(all, "Take no object of this store for whole because it is there: a writer that died may have left a part of it.")
	}
	switch f, ok := r.Finding(lifecycle); {
	case !ok || f.Note == rulesEndUploads:
	case f.Note == hasNoRules:
		all = append(all, "A gateway that is killed leaves the parts of its multipart uploads below "+prefix+" behind, and this store has no rules that end them: abort them from time to time.")
	default:
		all = append(all, "Let a lifecycle rule end multipart uploads below "+prefix+" that are not completed within a day: a gateway that is killed leaves their parts behind.")
	}
	return all
}
