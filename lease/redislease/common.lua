-- Stands before each script. KEYS: the lease, its queue, the notes of its queue, for whom it was last reserved;
-- ARGV[1] the caller's gateway, ARGV[2] what gateways' channels begin with ('': shard channels), ARGV[3] the value (none: ''); further ones from ARGV[4]
local LEASE, QUEUE, NOTES, LAST = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local me, channels, value = ARGV[1], ARGV[2], ARGV[3]
local LONGEST, WINDOW = 86400000, 250 -- in ms: lease.MaxTTL, lease.Window
local KEPT = 7200000 -- how long in ms a queue outlives the last sign of its entries: longer than anybody waits
local name = string.match(LEASE, '{(.*)}$')

local function clock() -- in us
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local function whole(n) -- places and times need more digits than Lua writes by itself
  return string.format('%.0f', n)
end

-- entries is the length of the queue. What others keep under these keys is none of ours, and in the way.
local function entries()
  local n = redis.pcall('ZCARD', QUEUE)
  if type(n) ~= 'number' then
    redis.call('DEL', QUEUE)
    return 0
  end
  return n
end

local function notes_are_ours()
  local kind = redis.call('TYPE', NOTES).ok
  if kind ~= 'hash' and kind ~= 'none' then
    redis.call('DEL', NOTES)
  end
end

-- note_of tells gateway, waiters and note of a value in the queue.
local function note_of(v)
  local gateway, waiters, note = string.match(redis.call('HGET', NOTES, v) or '', '^(%w+):(%d+):(.*)$')
  return gateway, tonumber(waiters) or 0, note or ''
end

local function remove(member)
  redis.call('ZREM', QUEUE, member)
  redis.call('HDEL', NOTES, string.sub(member, 1, 64))
end

-- find tells how the value stands in the queue, nil if it does not.
local function find()
  if entries() == 0 then
    return nil
  end
  notes_are_ours()
  local member = value .. ':' .. (note_of(value) or me)
  local place = redis.call('ZSCORE', QUEUE, member)
  if not place then
    return nil
  end
  return {member = member, place = tonumber(place)}
end

local function is_digest(s)
  return type(s) == 'string' and #s == 64 and not string.find(s, '[^0-9a-f]')
end

-- read tells who holds the lease, nil if nobody does. No expiry (an operator's PERSIST or SET, a restore) or one beyond
-- the longest would hold it for ever.
local function read()
  local left = redis.call('PTTL', LEASE)
  if left == -2 then
    return nil
  end
  if left < 0 or left > LONGEST then
    redis.call('PEXPIRE', LEASE, LONGEST)
    left = LONGEST
  end
  local f = redis.pcall('HMGET', LEASE, 'value', 'gateway', 'holder', 'reserved', 'tenant', 'renewed', 'waiters', 'place')
  if f.err or not is_digest(f[1]) or not f[2] then
    return {value = 'foreign', gateway = '', holder = '', tenant = '', renewed = 0, waiters = 0, left = left}
  end
  return {
    value = f[1], gateway = f[2], holder = f[3] or '', reserved = f[4] == '1', tenant = f[5] or '',
    renewed = tonumber(f[6]) or 0, waiters = tonumber(f[7]) or 0, place = tonumber(f[8]), left = left,
  }
end

-- tell sends a signal to a gateway, and how many heard it: 0 if it is gone.
local function tell(kind, v, gateway)
  local signal = kind .. ' ' .. name .. ' ' .. v
  if channels == '' then
    return redis.call('SPUBLISH', LEASE .. ':' .. gateway, signal)
  end
  return redis.call('PUBLISH', channels .. gateway, signal)
end

local function reserve(v, gateway, waiters)
  redis.call('DEL', LEASE)
  redis.call('HSET', LEASE, 'value', v, 'gateway', gateway, 'reserved', '1', 'waiters', waiters)
  redis.call('PEXPIRE', LEASE, WINDOW)
  redis.call('SET', LAST, gateway, 'PX', WINDOW * 20)
  return {value = v, gateway = gateway, holder = '', reserved = true, tenant = '', renewed = 0, waiters = waiters, left = WINDOW}
end

-- forgo removes the entries of the gateway that let its reservation pass: a stopped one costs a single window. When it
-- runs again it enters them at their places. One that calls is not stopped.
local function forgo()
  local idle = redis.pcall('GET', LAST)
  if idle then
    redis.call('DEL', LAST)
  end
  if type(idle) ~= 'string' or idle == me then
    return
  end
  for _, member in ipairs(redis.call('ZRANGE', QUEUE, 0, -1)) do
    if string.sub(member, 66) == idle then
      remove(member)
    end
  end
end

-- hand_on gives a lease that nobody holds to the first of the queue that can be reached; nil if there is none.
local function hand_on()
  if entries() == 0 then
    redis.call('DEL', LAST)
    return nil
  end
  notes_are_ours()
  forgo()
  while true do
    local member = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    if not member then
      return nil
    end
    local v, gateway = string.match(member, '^(%x+):(%w+)$')
    local _, waiters = note_of(v or '')
    remove(member)
    if is_digest(v) and tell('pushed', v, gateway) > 0 then
      return reserve(v, gateway, waiters)
    end
  end
end

-- standing is the answer about the value.
local function standing(hold, stand)
  local n = entries()
  hold = hold or {value = '', holder = '', tenant = '', renewed = 0, waiters = 0, left = 0}
  local followed = hold.value == value and n > 0
  if stand then
    followed = redis.call('ZRANGE', QUEUE, -1, -1)[1] ~= stand.member
  end
  local renewed = 0
  if hold.renewed > 0 then
    renewed = hold.renewed - math.floor(clock() / 1000)
  end
  return {
    hold.value, hold.reserved and 1 or 0, hold.holder, hold.left, hold.tenant, renewed, hold.waiters,
    stand and whole(stand.place) or '0', followed and 1 or 0, n,
  }
end
