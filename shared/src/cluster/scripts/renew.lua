#!lua flags=allow-oom
-- Keeps a lease. It writes, and so a WAIT behind it waits for all that was in the log before it.
-- KEYS[1] the lease
-- ARGV[1] the owner
-- Returns 1, or 0 when the lease is not this owner's.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'beat', 1)
return 1
