// Package testenv gives tests real servers: one PostgreSQL, Redis, etcd and S3 for each test binary, started when the first
// test asks, and servers of a test's own for tests that pause or kill them. A package that uses it has
//
//	func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
//
// FENCEGATE_TEST_DATABASE_URL, FENCEGATE_TEST_REDIS_URL and FENCEGATE_TEST_ETCD_URL name servers to use instead. A server
// that can be neither found nor started fails the test and says what to install; no test is skipped.
//
// FENCEGATE_TEST_S3_ENDPOINT, FENCEGATE_TEST_S3_ACCESS_KEY and FENCEGATE_TEST_S3_SECRET_KEY name one more S3, such as a MinIO, on which
// stores/s3store runs its conformance suites beside those on the one of the tests; without them that one test is skipped.
package testenv
