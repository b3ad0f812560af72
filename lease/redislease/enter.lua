-- ARGV[4] the holder, ARGV[5] the ttl in ms, ARGV[6] how many wait behind the value, the first of whom has the lease once it is taken, ARGV[7] the note, ARGV[8] its place before or 0, ARGV[9] the longest queue; returns how the lease stands, or {'full'}
if held == false and n == 0 then -- nobody holds it and nobody waits: what happens most
  local place = ARGV[8]
  if place == '0' then
    local t = redis.call('TIME')
    place = t[1] .. string.format('%06d', t[2])
  end
  local behind = math.max(0, ARGV[6] - 1)
  redis.call('SET', LEASE, value .. ' ' .. me .. ' h ' .. behind .. ' 0  ' .. ARGV[4], 'PX', ARGV[5])
  return {value, 0, ARGV[4], tonumber(ARGV[5]), '', 0, behind, place, 0, 0}
end
--@common

local waiters, wanted = tonumber(ARGV[6]), tonumber(ARGV[8])
local hold, stand = read(), find()

-- first_in_line tells whether nobody stands before the value.
local function first_in_line()
  local first = redis.call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')
  local place = stand and stand.place or wanted
  return first[1] == nil or place > 0 and place <= tonumber(first[2])
end

local function next_place(last)
  return math.max(clock(), (tonumber(last) or 0) + 1)
end

-- take takes the lease, and tells where the value stood or would have stood.
local function take()
  hold = {value = value, gateway = me, waiters = math.max(0, waiters - 1), renewed = 0, tenant = '', holder = ARGV[4], left = tonumber(ARGV[5])}
  keep(hold, 'PX', ARGV[5]) -- first, so that a server whose memory is full refuses
  local place = stand and stand.place or wanted
  if stand then
    remove(stand.member)
    stand = nil
  end
  settle()
  return place > 0 and place or next_place()
end

-- append gives the value its stand in the queue, and tells the one before it that it is not the last any more.
local function append()
  if n == 0 then
    redis.call('DEL', NOTES)
  end
  local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
  stand = {member = value .. ':' .. me, gateway = me, place = wanted > 0 and wanted or next_place(last[2])}
  redis.call('ZADD', QUEUE, whole(stand.place), stand.member)
  n = n + 1
  local before, gateway = hold.value, hold.gateway
  if last[1] then
    before, gateway = string.match(last[1], '^(%x+):(%w+)$')
    if tonumber(last[2]) > stand.place then
      gateway = nil -- it was followed before
    end
  end
  if gateway and gateway ~= '' and gateway ~= me then
    tell('followed', before, gateway)
  end
end

local taken
if not hold then
  if first_in_line() then
    taken = take()
  else
    hold = hand_on()
    stand = find()
    taken = not hold and take()
  end
end
if hold.value == value then
  local behind = hold.reserved and waiters or math.max(0, waiters - 1)
  if hold.gateway == me and hold.waiters ~= behind then
    hold.waiters = behind
    keep(hold, 'KEEPTTL')
  end
elseif stand or waiters > 0 then
  if not stand then
    if n >= tonumber(ARGV[9]) then
      return {'full'}
    end
    append()
  end
  renew(stand, waiters, ARGV[7])
end
local answer = standing(hold, stand)
if taken then
  answer[8] = whole(taken)
end
return answer
