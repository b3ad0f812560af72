-- Stands before each script. KEYS: the lease, its queue, the notes of its queue; ARGV[1] the caller's gateway, ARGV[2] what gateways' channels begin with ('': shard channels), ARGV[3] the value; further ones from ARGV[4]
local LEASE, QUEUE, NOTES = KEYS[1], KEYS[2], KEYS[3]
local me, channels, value = ARGV[1], ARGV[2], ARGV[3]
local held = redis.pcall('GET', LEASE) -- false if nobody holds it, a table if it is no text
local n = redis.pcall('ZCARD', QUEUE) -- how many entries wait, a table if it is no queue
