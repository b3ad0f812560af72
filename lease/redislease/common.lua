-- Stands in each script where it says --@common: before that a script does what needs none of it, since Redis makes these
-- functions anew for every call. KEYS and ARGV are those of head.lua.
local LONGEST, WINDOW = 86400000, 250 -- in ms: lease.MaxTTL, lease.Window
local KEPT = 7200000 -- how long in ms a queue outlives the last sign of its entries: longer than anybody waits

-- What others keep under these keys is none of ours, and in the way.
if type(n) ~= 'number' then
  redis.call('DEL', QUEUE)
  n = 0
end

local function clock() -- in us
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local function whole(x) -- places and times have more digits than Lua writes by itself
  return string.format('%.0f', x)
end

-- noted reads a field of the notes.
local function noted(field)
  local text = redis.pcall('HGET', NOTES, field)
  if type(text) == 'table' then
    redis.call('DEL', NOTES)
    return nil
  end
  return text or nil
end

-- note_of tells gateway, waiters and note of a value in the queue.
local function note_of(v)
  local gateway, waiters, note = string.match(noted(v) or '', '^(%w+) (%d+) (.*)$')
  return gateway, tonumber(waiters) or 0, note or ''
end

local function remove(member)
  redis.call('ZREM', QUEUE, member)
  n = n - 1
  if n == 0 then
    redis.call('DEL', NOTES)
  else
    redis.call('HDEL', NOTES, string.sub(member, 1, 64))
  end
end

-- find tells how the value stands in the queue, nil if it does not.
local function find()
  if n == 0 then
    return nil
  end
  local gateway = note_of(value) or me
  local member = value .. ':' .. gateway
  local place = redis.call('ZSCORE', QUEUE, member)
  if not place then
    return nil
  end
  return {member = member, gateway = gateway, place = tonumber(place)}
end

-- renew writes the note of an entry that stands in the queue, and keeps the queue.
local function renew(stand, waiters, note)
  redis.call('PEXPIRE', QUEUE, KEPT)
  redis.call('HSET', NOTES, value, stand.gateway .. ' ' .. waiters .. ' ' .. note)
  redis.call('PEXPIRE', NOTES, KEPT)
end

-- read tells who holds the lease, nil if nobody does. No expiry (an operator's PERSIST or SET, a restore) or one beyond
-- the longest would hold it for ever.
local function read()
  if held == false then
    return nil
  end
  local left = redis.call('PTTL', LEASE)
  if left < 0 or left > LONGEST then
    redis.call('PEXPIRE', LEASE, LONGEST)
    left = LONGEST
  end
  local v, gateway, kind, waiters, renewed, tenant, holder
  if type(held) == 'string' then
    v, gateway, kind, waiters, renewed, tenant, holder = string.match(held, '^(%x+) (%w+) ([hr]) (%d+) (%d+) (%x*) (.*)$')
  end
  if not v or #v ~= 64 then
    return {value = 'foreign', gateway = '', holder = '', tenant = '', renewed = 0, waiters = 0, left = left}
  end
  return {
    value = v, gateway = gateway, reserved = kind == 'r', waiters = tonumber(waiters), renewed = tonumber(renewed), tenant = tenant,
    holder = holder, left = left,
  }
end

-- keep writes who holds the lease, with the options of SET for how long.
local function keep(hold, ...)
  redis.call('SET', LEASE, table.concat({
    hold.value, hold.gateway, hold.reserved and 'r' or 'h', hold.waiters, whole(hold.renewed), hold.tenant, hold.holder,
  }, ' '), ...)
end

-- tell sends a signal to a gateway, and how many heard it: 0 if it is gone.
local function tell(kind, v, gateway)
  local signal = kind .. ' ' .. string.match(LEASE, '{(.*)}$') .. ' ' .. v
  if channels == '' then
    return redis.call('SPUBLISH', LEASE .. ':' .. gateway, signal)
  end
  return redis.call('PUBLISH', channels .. gateway, signal)
end

-- settle says that the last reservation is none any more: it was claimed, or given up.
local function settle()
  if n > 0 then
    redis.call('HDEL', NOTES, 'last')
  end
end

local function reserve(v, gateway, waiters)
  local hold = {value = v, gateway = gateway, reserved = true, waiters = waiters, renewed = 0, tenant = '', holder = '', left = WINDOW}
  keep(hold, 'PX', WINDOW)
  if n > 0 then
    redis.call('HSET', NOTES, 'last', gateway)
    redis.call('PEXPIRE', NOTES, KEPT)
  end
  return hold
end

-- forgo removes the entries of the gateway that let its reservation pass: a stopped one costs a single window. When it
-- runs again it enters them at their places. One that calls is not stopped.
local function forgo()
  local idle = noted('last')
  if not idle then
    return
  end
  redis.call('HDEL', NOTES, 'last')
  if idle == me then
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
  if n > 0 then
    forgo()
  end
  while n > 0 do
    local member = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    local v, gateway = string.match(member, '^(%x+):(%w+)$')
    local _, waiters = note_of(v or '')
    remove(member)
    if v and #v == 64 and tell('pushed', v, gateway) > 0 then
      return reserve(v, gateway, waiters)
    end
  end
  return nil
end

-- standing is the answer about the value.
local function standing(hold, stand)
  hold = hold or {value = '', holder = '', tenant = '', renewed = 0, waiters = 0, left = 0}
  local followed = n > 0 and hold.value == value
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
