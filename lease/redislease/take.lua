-- KEYS[1] the lease; ARGV[1] the value, ARGV[2] its ttl in ms, ARGV[3] the longest ttl in ms; returns {value that holds the lease, ms left}
local held = redis.pcall('GET', KEYS[1])
if not held then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {ARGV[1], tonumber(ARGV[2])}
end
if type(held) ~= 'string' then
  held = '' -- a key of another type is somebody's, but no lease of ours
end
-- No expiry (an operator's SET, a restore) or one beyond the longest would hold the lease for ever.
local left = redis.call('PTTL', KEYS[1])
local longest = tonumber(ARGV[3])
if left < 0 or left > longest then
  redis.call('PEXPIRE', KEYS[1], longest)
  left = longest
end
return {held, left}
