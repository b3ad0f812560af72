-- ARGV[4] the next value of the hold; returns {1 if the value held the lease, had it reserved or stood in the queue, 1 if the lease went to somebody who waits}
local ours = value .. ' ' .. me .. ' '
if n == 0 and type(held) == 'string' and string.sub(held, 1, #ours) == ours then -- nobody waits: what happens most
  redis.call('DEL', LEASE)
  return {1, 0}
end
--@common

local hold, stand = read(), find()
local had, went = stand ~= nil, false
if stand then
  remove(stand.member)
end
if hold and hold.value == value then
  had = true
  if hold.gateway ~= me and hold.waiters > 0 and tell('pushed', ARGV[4], hold.gateway) > 0 then
    redis.call('PEXPIRE', LEASE, WINDOW) -- first, as in extend
    reserve(ARGV[4], hold.gateway, hold.waiters)
    went = true
  else
    redis.call('DEL', LEASE)
    if hold.reserved then
      settle()
    end
    went = hand_on() ~= nil
  end
elseif not hold then
  went = hand_on() ~= nil
end
return {had and 1 or 0, went and 1 or 0}
