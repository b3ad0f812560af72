-- ARGV[4] the new ttl in ms, ARGV[5] for whom, ARGV[6] his name; returns how the lease stands
local hold = read() or hand_on()
if hold and hold.value == value then
  local ttl, foreign = tonumber(ARGV[4]), hold.gateway ~= me
  hold.left = foreign and hold.waiters > 0 and math.max(ttl, hold.left) or ttl
  hold.tenant, hold.renewed = ARGV[5], 0
  -- First, so that a server whose memory is full lets the script go on: a lease can be kept then.
  redis.call('PEXPIRE', LEASE, hold.left)
  if hold.reserved then
    redis.call('DEL', LAST)
    redis.call('HDEL', LEASE, 'reserved')
    redis.call('HSET', LEASE, 'holder', ARGV[6])
    hold.reserved, hold.holder = false, ARGV[6]
  end
  if foreign then
    hold.renewed = math.floor(clock() / 1000) + ttl
    redis.call('HSET', LEASE, 'tenant', ARGV[5], 'renewed', whole(hold.renewed))
  else
    redis.call('HDEL', LEASE, 'renewed')
    redis.call('HSET', LEASE, 'tenant', ARGV[5])
  end
end
return standing(hold, find())
