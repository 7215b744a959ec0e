#!lua flags=allow-oom
-- Shows that an instance is alive, forgets the dead, and reads all that are left.
-- KEYS[1] the members: a hash, instance nonce -> a counter that grows while it lives
-- ARGV[1] our nonce, or empty to read only; ARGV[2..] nonces of the dead (or our own, to leave)
-- Returns the hash.
if ARGV[1] ~= '' then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
end
for i = 2, #ARGV do
  redis.call('HDEL', KEYS[1], ARGV[i])
end
return redis.call('HGETALL', KEYS[1])
