-- KEYS[1] the counter of a window. ARGV[1] length of the window in ms. Returns the count, this request included, and the
-- ms that are left of the window.
local n = redis.call('INCR', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
	-- It has just been made (or is one that somebody made by hand): only now it gets its end, so that requests that go on
	-- do not move the end on.
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
	left = tonumber(ARGV[1])
end
return {n, left}
