-- ARGV[4] how many wait behind the value, ARGV[5] the note; returns how the lease stands
--@common

local waiters = tonumber(ARGV[4])
local hold = read() or hand_on()
local stand = find()
if hold and hold.value == value and hold.gateway == me and hold.waiters ~= waiters then
  hold.waiters = waiters
  keep(hold, 'KEEPTTL')
end
if stand then
  renew(stand, waiters, ARGV[5])
end
return standing(hold, stand)
