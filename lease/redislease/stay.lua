-- ARGV[4] how many wait behind the value, ARGV[5] the note; returns how the lease stands
local waiters = tonumber(ARGV[4])
local hold = read() or hand_on()
local stand = find()
if hold and hold.value == value and hold.gateway == me and hold.waiters ~= waiters then
  redis.call('HSET', LEASE, 'waiters', waiters)
  hold.waiters = waiters
end
if stand then
  redis.call('PEXPIRE', QUEUE, KEPT)
  redis.call('HSET', NOTES, value, string.sub(stand.member, 66) .. ':' .. waiters .. ':' .. ARGV[5])
  redis.call('PEXPIRE', NOTES, KEPT)
end
return standing(hold, stand)
