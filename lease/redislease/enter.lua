-- ARGV[4] the holder, ARGV[5] the ttl in ms, ARGV[6] how many wait behind the value, ARGV[7] the note, ARGV[8] its place before or 0, ARGV[9] the longest queue; returns how the lease stands, or {'full'}
local waiters, wanted = tonumber(ARGV[6]), tonumber(ARGV[8])
local hold, stand = read(), find()

-- first_in_line tells whether nobody stands before the value.
local function first_in_line()
  local first = redis.call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')
  local place = stand and stand.place or wanted
  return first[1] == nil or place > 0 and place <= tonumber(first[2])
end

local function next_place()
  local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
  return math.max(clock(), (tonumber(last[2]) or 0) + 1)
end

local function take()
  local place = stand and stand.place or wanted
  if place <= 0 then
    place = next_place()
  end
  -- First, so that a server whose memory is full refuses.
  redis.call('HSET', LEASE, 'value', value, 'gateway', me, 'holder', ARGV[4], 'waiters', waiters, 'place', whole(place))
  redis.call('PEXPIRE', LEASE, ARGV[5])
  redis.call('DEL', LAST)
  if stand then
    remove(stand.member)
    stand = nil
  end
  return {value = value, gateway = me, holder = ARGV[4], tenant = '', renewed = 0, waiters = waiters, place = place, left = tonumber(ARGV[5])}
end

-- append gives the value its stand in the queue, and tells the one before it that it is not the last any more.
local function append()
  local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
  local place = wanted > 0 and wanted or next_place()
  stand = {member = value .. ':' .. me, place = place}
  redis.call('ZADD', QUEUE, whole(place), stand.member)
  local before, gateway = hold.value, hold.gateway
  if last[1] then
    before, gateway = string.match(last[1], '^(%x+):(%w+)$')
    if tonumber(last[2]) > place then
      gateway = nil -- it was followed before
    end
  end
  if gateway and gateway ~= '' and gateway ~= me then
    tell('followed', before, gateway)
  end
end

if not hold then
  if entries() == 0 or first_in_line() then
    hold = take()
  else
    hold = hand_on()
    stand = find()
    hold = hold or take()
  end
end
if hold.value == value then
  if hold.gateway == me and hold.waiters ~= waiters then
    redis.call('HSET', LEASE, 'waiters', waiters)
    hold.waiters = waiters
  end
elseif stand or waiters > 0 then
  if not stand then
    if entries() >= tonumber(ARGV[9]) then
      return {'full'}
    end
    append()
  end
  redis.call('HSET', NOTES, value, string.sub(stand.member, 66) .. ':' .. waiters .. ':' .. ARGV[7])
  redis.call('PEXPIRE', QUEUE, KEPT)
  redis.call('PEXPIRE', NOTES, KEPT)
end
local answer = standing(hold, stand)
if hold.value == value and not hold.reserved and hold.place then
  answer[8] = whole(hold.place)
end
return answer
