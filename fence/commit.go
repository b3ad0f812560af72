package fence

// Commit is several writes of different resources that are carried out together or not at all (I5).
type Commit struct {
	Principal string
	As        Identity
	Writes    []CommitWrite
	// NumbersAsText is as in RowRead, for the rows that are returned.
	NumbersAsText bool
}

// CommitWrite is one write of a commit: of a row, or of an object. The other is nil. Its principal and identity are those of
// the commit; its token is its own, so that one commit may span leases.
type CommitWrite struct {
	Row    *RowWrite
	Object *ObjectWrite
	// Blob is the id of the upload that a put of an object publishes. The object gets the headers of the upload.
	Blob string
	// Taken is the blob to which the source of a copy was copied, where that lay in the bucket under its own key. It is not part of
	// the request.
	Taken string
}

// Committed is what became of a commit. Results has one entry for each write, in the order of the request.
type Committed struct {
	Results []CommitResult
	// Replayed tells an answer that is given again; the states, rows and objects are those of now.
	Replayed bool
}

// CommitResult is what one write of a commit did. One of Row and Object is set.
type CommitResult struct {
	Row    *Row
	Object *Object
}

// Upload is a body that is stored without being published, for one commit.
type Upload struct {
	// ID names it in a commit.
	ID     string
	Bucket string
	Size   int64
	SHA256 string // in hex
}
