package localservers

import "testing"

func TestSentinelRemembersThePrimary(t *testing.T) {
	t.Parallel()
	first := startRedis(t, RedisConfig{Dir: t.TempDir(), TCP: true})
	defer stopProcess(t, first.Process)
	second := startRedis(t, RedisConfig{Dir: t.TempDir(), TCP: true})
	defer stopProcess(t, second.Process)
	if err := second.Follow(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	config := SentinelConfig{Dir: t.TempDir(), Primary: first, Replicas: 1}
	s, err := StartSentinel(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	first.Kill()
	if err := s.waitReady(t.Context(), func() bool {
		at, err := s.Primary(t.Context())
		return err == nil && at == second.Address()
	}); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	config.Replicas = 0
	again, err := StartSentinel(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer stopProcess(t, again.Process)
	if at, err := again.Primary(t.Context()); err != nil || at != second.Address() || again.URL() != s.URL() {
		t.Errorf("started again it is at %s and names %s, %v; want %s and %s", again.URL(), at, err, s.URL(), second.Address())
	}
}
