// Package load makes closed-loop load and measures it: a number of clients each begin their next operation when the last one
// has ended, for a bounded time. Run is the loop, Histogram keeps the latencies, Conn is a client of HTTP that costs little
// beside the server it loads, and ProcessCPU, TreeCPU and ResidentMemory tell what that server spent.
//
// A closed loop shows the latency at a number of clients, not at a rate: while the server stalls, its clients wait instead of
// sending what an open world would, so a stall counts once for each client.
package load
