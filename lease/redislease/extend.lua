-- KEYS[1] the lease; ARGV[1] the digest in hex, ARGV[2] the new ttl in ms; returns 1 if the digest holds the lease, else 0
local held = redis.pcall('GET', KEYS[1])
if type(held) ~= 'string' or string.sub(held, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
