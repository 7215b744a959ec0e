#!lua flags=allow-oom
-- Takes a lease if it is still as the candidate saw it.
-- KEYS[1] the lease: a hash with owner, beat and the reader's offset
-- ARGV[1] the owner seen, empty for none; ARGV[2] the beat seen; ARGV[3] the new owner
-- Returns 1, or 0 when the lease has changed meanwhile.
local seen = redis.call('HMGET', KEYS[1], 'owner', 'beat')
if (seen[1] or '') ~= ARGV[1] or (seen[2] or '0') ~= ARGV[2] then
  return 0
end
-- The beat goes up with the owner, so that two candidates that saw the same record cannot both win.
redis.call('HINCRBY', KEYS[1], 'beat', 1)
redis.call('HSET', KEYS[1], 'owner', ARGV[3])
return 1
