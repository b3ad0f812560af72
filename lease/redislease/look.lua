-- ARGV[4] how many entries of the queue are asked for; returns how the lease stands, then of each entry the value, how many wait behind it, and the note
--@common

local answer = standing(read() or hand_on(), nil)
if n > 0 and ARGV[4] ~= '0' then
  for _, member in ipairs(redis.call('ZRANGE', QUEUE, 0, ARGV[4] - 1)) do
    local v = string.sub(member, 1, 64)
    local _, waiters, note = note_of(v)
    answer[#answer + 1] = v
    answer[#answer + 1] = waiters
    answer[#answer + 1] = note
  end
end
return answer
