package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/stores/pgstore"
	"github.com/fencegate/fencegate/stores/s3store"
)

// Sources are read at each scrape, so they must be cheap: none may ask a server. All but Uploads and Logins are
// required.
type Sources struct {
	Database  func() pgstore.Stats
	Redis     func() *redis.PoolStats
	Leases    func() lease.Stats
	Gateway   func() gateway.Stats
	Transfers func() int64
	// Uploads is nil when blobs are not kept in S3.
	Uploads func() s3store.Memory
	// Logins counts the requests refused for their credentials, and those refused because too many had failed. It is
	// nil without authentication.
	Logins func() (failed, limited uint64)
}

// Watch adds what Sources tell. It is called once.
func (m *Metrics) Watch(s Sources) { m.registry.MustRegister(newBackends(s)) }

// backends reads its sources once per scrape, so that the numbers of one source belong together.
type backends struct {
	sources Sources
	descs   map[string]*prometheus.Desc
}

func newBackends(s Sources) *backends {
	b := &backends{sources: s, descs: map[string]*prometheus.Desc{}}
	add := func(name, help string, labels ...string) {
		b.descs[name] = prometheus.NewDesc("fencegate_"+name, help, labels, nil)
	}
	add("database_connections", "Connections to PostgreSQL.", "state")
	add("database_connections_max", "Most connections to PostgreSQL that there may be.")
	add("database_connections_opened_total", "Connections to PostgreSQL opened so far.")
	add("database_acquires_total", "Times that a connection was taken out of the pool.")
	add("database_acquires_waited_total", "Times that no connection was free at once.")
	add("database_acquires_canceled_total", "Times that no connection was had in time.")
	add("database_acquire_seconds_total", "Time spent on taking connections out of the pool.")
	add("database_transactions", "Transactions that may wait for locks, by their share of the connections.", "share")
	add("database_transactions_max", "Most transactions that a share admits at once.", "share")
	add("database_transactions_waiting", "Transactions that wait for their share of the connections.", "share")
	add("write_batches_total", "Transactions made of the writes that had come together. Those that failed were made again in parts.", "result")
	add("write_batches_writes_total", "Writes made in such transactions.")
	add("writes_alone_total", "Writes that had a transaction of their own, because a lock was not free at once, or their batch failed.", "reason")
	add("writes_queued", "Writes that wait to be in a transaction.")
	add("redis_connections", "Connections to Redis.", "state")
	add("redis_pool_hits_total", "Times that a free connection to Redis was there.")
	add("redis_pool_misses_total", "Times that none was.")
	add("redis_pool_timeouts_total", "Times that no connection to Redis was had in time.")
	add("acquires_waiting", "Acquires that wait for a lease that somebody else holds.")
	add("certificates_void_total", "Certificates that came too late: the lease was granted to somebody else in between.")
	add("event_streams", "Streams of events that are open.")
	add("refusals_noted_total", "Refused writes that were recorded among the events.")
	add("refusals_dropped_total", "Refused writes that were not recorded: too many came at once, or the ledger did not take them.")
	add("rate_limited_total", "Requests refused because their principal had made too many.", "class")
	add("rate_uncounted_total", "Requests that Redis could not count in time. Writes are served all the same.", "class")
	add("transfers", "Bodies of objects that are on their way.")
	if s.Uploads != nil {
		add("upload_memory_bytes", "Buffers of uploads to S3 in use.")
		add("upload_memory_max_bytes", "Most bytes of buffers that there may be.")
		add("uploads_waiting", "Uploads that wait for buffers.")
	}
	if s.Logins != nil {
		add("logins_failed_total", "Requests refused for their credentials, or unread because too many before had failed.", "reason")
	}
	return b
}

// Describe implements prometheus.Collector.
func (b *backends) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range b.descs {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (b *backends) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(name string, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(b.descs[name], prometheus.GaugeValue, value, labels...)
	}
	counter := func(name string, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(b.descs[name], prometheus.CounterValue, value, labels...)
	}
	b.database(gauge, counter)
	b.redis(gauge, counter)

	leases := b.sources.Leases()
	gauge("acquires_waiting", float64(leases.Waiting))
	counter("certificates_void_total", float64(leases.Void))
	b.gateway(gauge, counter)
	gauge("transfers", float64(b.sources.Transfers()))
	if b.sources.Uploads != nil {
		memory := b.sources.Uploads()
		gauge("upload_memory_bytes", float64(memory.InUse))
		gauge("upload_memory_max_bytes", float64(memory.Size))
		gauge("uploads_waiting", float64(memory.Waiting))
	}
	if b.sources.Logins != nil {
		failed, limited := b.sources.Logins()
		counter("logins_failed_total", float64(failed), "credentials")
		counter("logins_failed_total", float64(limited), "limit")
	}
}

type tell func(name string, value float64, labels ...string)

func (b *backends) database(gauge, counter tell) {
	stats := b.sources.Database()
	pool := stats.Pool
	gauge("database_connections", float64(pool.AcquiredConns()), "in_use")
	gauge("database_connections", float64(pool.IdleConns()), "idle")
	gauge("database_connections", float64(pool.ConstructingConns()), "opening")
	gauge("database_connections_max", float64(pool.MaxConns()))
	counter("database_connections_opened_total", float64(pool.NewConnsCount()))
	counter("database_acquires_total", float64(pool.AcquireCount()))
	counter("database_acquires_waited_total", float64(pool.EmptyAcquireCount()))
	counter("database_acquires_canceled_total", float64(pool.CanceledAcquireCount()))
	counter("database_acquire_seconds_total", pool.AcquireDuration().Seconds())
	for share, s := range map[string]pgstore.ShareStats{"writes": stats.Writes, "grants": stats.Grants} {
		gauge("database_transactions", float64(s.InUse), share)
		gauge("database_transactions_max", float64(s.Size), share)
		gauge("database_transactions_waiting", float64(s.Waiting), share)
	}
	batches := stats.Batches
	counter("write_batches_total", float64(batches.Sent), "ok")
	counter("write_batches_total", float64(batches.Failed), "failed")
	counter("write_batches_writes_total", float64(batches.Writes))
	counter("writes_alone_total", float64(batches.Busy), "busy")
	counter("writes_alone_total", float64(batches.FellBack), "failed")
	gauge("writes_queued", float64(batches.Queued))
}

func (b *backends) redis(gauge, counter tell) {
	pool := b.sources.Redis()
	gauge("redis_connections", float64(pool.TotalConns-min(pool.IdleConns, pool.TotalConns)), "in_use")
	gauge("redis_connections", float64(pool.IdleConns), "idle")
	counter("redis_pool_hits_total", float64(pool.Hits))
	counter("redis_pool_misses_total", float64(pool.Misses))
	counter("redis_pool_timeouts_total", float64(pool.Timeouts))
}

func (b *backends) gateway(gauge, counter tell) {
	stats := b.sources.Gateway()
	gauge("event_streams", float64(stats.Streams))
	counter("refusals_noted_total", float64(stats.RefusalsNoted))
	counter("refusals_dropped_total", float64(stats.RefusalsDropped))
	for class, n := range stats.OverRate {
		counter("rate_limited_total", float64(n), class)
	}
	for class, n := range stats.Uncounted {
		counter("rate_uncounted_total", float64(n), class)
	}
}
