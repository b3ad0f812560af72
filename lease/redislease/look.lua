-- KEYS[1] the lease; ARGV[1] the longest ttl in ms; returns {value that holds the lease, ms left}, or {} when nothing does
local held = redis.pcall('GET', KEYS[1])
if not held then
  return {}
end
if type(held) ~= 'string' then
  held = '' -- a key of another type is somebody's, but no lease of ours
end
-- No expiry (an operator's SET, a restore) or one beyond the longest would hold the lease for ever.
local left = redis.call('PTTL', KEYS[1])
local longest = tonumber(ARGV[1])
if left < 0 or left > longest then
  redis.call('PEXPIRE', KEYS[1], longest)
  left = longest
end
return {held, left}
