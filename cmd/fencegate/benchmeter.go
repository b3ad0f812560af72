package main

import (
	"fmt"
	"time"

	"github.com/fencegate/fencegate/internal/load"
)

// meter reads how much CPU time what is measured has used.
type meter struct {
	parts []meterPart
	at    []time.Duration // when it began; nil before, and when it could not be read
}

// meterPart is one thing that uses CPU.
type meterPart struct {
	what string
	ours bool // the clients' own, which is no part of what a write costs
	read func() (time.Duration, error)
}

// cpuUse is what a part has used.
type cpuUse struct {
	what string
	ours bool
	used time.Duration
}

// ourselves are the clients.
func ourselves() meterPart { return meterPart{"clients", true, load.SelfCPU} }

// meterOf reads these processes of this machine, each with all below it.
func meterOf(pids []int) (*meter, error) {
	m := &meter{}
	for _, pid := range pids {
		if _, err := load.TreeCPU(pid); err != nil {
			return nil, fmt.Errorf("--pid: %w", err)
		}
		m.parts = append(m.parts, meterPart{fmt.Sprintf("process %d", pid), false, func() (time.Duration, error) { return load.TreeCPU(pid) }})
	}
	m.parts = append(m.parts, ourselves())
	return m, nil
}

// meterBelow tells a gateway from the servers that it started.
func meterBelow(pid int) *meter {
	return &meter{parts: []meterPart{
		{"gateway", false, func() (time.Duration, error) { return load.ProcessCPU(pid) }},
		{"PostgreSQL and Redis", false, func() (time.Duration, error) {
			tree, err := load.TreeCPU(pid)
			if err != nil {
				return 0, err
			}
			own, err := load.ProcessCPU(pid)
			return tree - own, err
		}},
		ourselves(),
	}}
}

func (m *meter) read() []time.Duration {
	var all []time.Duration
	for _, p := range m.parts {
		used, err := p.read()
		if err != nil {
			return nil // where there is no /proc nothing is told
		}
		all = append(all, used)
	}
	return all
}

func (m *meter) begin() { m.at = m.read() }

// end tells what was used since begin; nothing when that cannot be known.
func (m *meter) end() []cpuUse {
	now := m.read()
	if m.at == nil || now == nil {
		return nil
	}
	var used []cpuUse
	for i, p := range m.parts {
		used = append(used, cpuUse{p.what, p.ours, now[i] - m.at[i]})
	}
	return used
}
