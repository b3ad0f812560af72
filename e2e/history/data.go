package history

// change is what one transaction did to one resource.
type change struct{ xact, resource string }

// checkData: I5, mark and data changed together: each raised mark has exactly one change of the data in its transaction,
// by the value that names its token, and each change of the data has its mark.
func (j *judge) checkData() {
	data := map[change][]DataRow{}
	for _, d := range j.Audit.Data {
		k := change{d.Xact, d.Resource}
		data[k] = append(data[k], d)
	}
	marked := map[change]int{}
	for _, m := range j.Audit.Marks {
		k := change{m.Xact, m.Resource}
		marked[k]++
		rows := data[k]
		switch {
		case len(rows) != 1:
			j.broken("I5", m.Lease, "%s: the mark was raised to %d and the data were changed %d times with it", m.Resource, m.Token, len(rows))
		case rows[0].Value != "" && rows[0].Token != m.Token:
			j.broken("I5", m.Lease, "%s: the mark was raised to %d and the data are those of token %d (%s)", m.Resource, m.Token, rows[0].Token, rows[0].Value)
		}
	}
	for k, rows := range data {
		if marked[k] != 1 {
			j.broken("I5", "", "%s: the data were changed to %q and the mark was raised %d times with it", k.resource, rows[0].Value, marked[k])
		}
	}
}

// checkBlobs: I6, a blob that was given up or superseded is deleted some day, so that it is never published.
func (j *judge) checkBlobs() {
	over := map[string]BlobRow{}
	for _, b := range j.Audit.Blobs {
		if (b.From == "aborted" || b.From == "garbage") && b.To != b.From && b.To != "" {
			j.broken("I6", "", "blob %s went from %s to %s", b.Blob, b.From, b.To)
		}
		if _, known := over[b.Blob]; !known && (b.To == "aborted" || b.To == "garbage") {
			over[b.Blob] = b
		}
	}
	for _, d := range j.Audit.Data {
		if b, gone := over[d.Blob]; d.Blob != "" && gone && b.Seq < d.Seq {
			j.broken("I6", "", "%s: token %d published blob %s after it was %s", d.Resource, d.Token, d.Blob, b.To)
		}
	}
}

// checkFinals: I5 and I6, what can be read in the end is what was accepted last, whole.
func (j *judge) checkFinals() {
	marks, values := map[string]int64{}, map[string]string{}
	for _, m := range j.Audit.Marks {
		marks[m.Resource] = m.Token
	}
	for _, d := range j.Audit.Data {
		values[d.Resource] = d.Value
	}
	for _, f := range j.Finals {
		switch {
		case f.Problem != "":
			j.broken("I6", "", "%s cannot be read in the end: %s", f.Resource, f.Problem)
		case f.Mark != marks[f.Resource]:
			j.broken("I1", "", "%s has the mark %d in the end, the last one accepted was %d", f.Resource, f.Mark, marks[f.Resource])
		case f.Value != values[f.Resource]:
			j.broken("I5", "", "%s is %q in the end, what was accepted last is %q (token %d)", f.Resource, f.Value, values[f.Resource], f.Mark)
		}
	}
}
