-- returns {1 if the value held the lease, had it reserved or stood in the queue, 1 if the lease went to somebody who waits}
local hold, stand = read(), find()
local had, went = stand ~= nil, false
if stand then
  remove(stand.member)
end
if hold and hold.value == value then
  had = true
  if hold.gateway ~= me and hold.waiters > 0 and tell('pushed', value, hold.gateway) > 0 then
    reserve(value, hold.gateway, hold.waiters)
    went = true
  else
    redis.call('DEL', LEASE, LAST)
    went = hand_on() ~= nil
  end
elseif not hold then
  went = hand_on() ~= nil
end
return {had and 1 or 0, went and 1 or 0}
