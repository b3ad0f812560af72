// Package localservers starts private servers for one program: a PostgreSQL, a Redis and, for tests, an S3, an etcd and
// Redis with replicas, Sentinels or as a cluster. They listen on Unix sockets (S3, etcd, replicas, Sentinels and clusters:
// on loopback ports), belong to the folder they are started on, and end with the program that started them:
//
//   - A folder runs one server. Its lock file is held by the program and by every process of the server, so a server
//     that outlives its program by a moment is waited for, and one that was started twice is refused.
//   - On Linux the kernel interrupts a server whose program dies, however it dies. Elsewhere a server that was left
//     behind is named in the error of the next start.
//   - After a kill -9 of program or server the next start on the folder recovers what was there.
//
// PostgreSQL refuses to run as root. For root it is started in a user namespace in which root's files belong to an
// unprivileged user; where namespaces are forbidden, as the user postgres or nobody.
package localservers
