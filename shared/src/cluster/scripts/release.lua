#!lua flags=allow-oom
-- Lets a lease go; the next candidate may take it at once.
-- KEYS[1] the lease
-- ARGV[1] the owner
-- Returns 1, or 0 when the lease is not this owner's.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'beat', 1)
redis.call('HSET', KEYS[1], 'owner', '')
return 1
