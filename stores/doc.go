// Package stores joins the ledger and a blob store to objects, and collects the blobs that no object needs any
// more. Each technology has a folder of its own: pgstore (ledger, rows, object pointers), s3store and dirstore
// (blobs).
//
// An object write records an intent, stores the body under a key that was never used before and is never
// rewritten, and publishes it by flipping the object's pointer in the ledger, together with the mark (I5, I6). So
// nothing depends on conditional writes of the blob store.
package stores
