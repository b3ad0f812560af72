-- ARGV[4] the new ttl in ms, ARGV[5] for whom, ARGV[6] his name, ARGV[7] the value whose it is then or '', ARGV[8] how many wait behind it or -1; returns how the lease stands
--@common

local hold = read() or hand_on()
if hold and hold.value == value then
  local ttl, foreign = tonumber(ARGV[4]), hold.gateway ~= me
  hold.left = ARGV[7] == '' and not hold.reserved and math.max(ttl, hold.left) or ttl
  hold.tenant, hold.renewed = ARGV[5], foreign and math.floor(clock() / 1000) + ttl or 0
  -- First, so that a server whose memory is full lets the script go on: a lease can be kept then.
  redis.call('PEXPIRE', LEASE, hold.left)
  if hold.reserved then
    hold.reserved, hold.holder = false, ARGV[6]
    settle()
  end
  if not foreign and ARGV[8] ~= '-1' then
    hold.waiters = tonumber(ARGV[8])
  end
  if ARGV[7] ~= '' then
    hold.value, value = ARGV[7], ARGV[7]
  end
  keep(hold, 'KEEPTTL')
end
return standing(hold, find())
