#!lua flags=allow-oom
-- Writes the layout of the data where none is, and reads it.
-- KEYS[1] the layout: a hash with version and shards
-- ARGV[1] our version; ARGV[2] our number of shards
-- Returns the version and the number of shards that stand there.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'version', ARGV[1], 'shards', ARGV[2])
end
return redis.call('HMGET', KEYS[1], 'version', 'shards')
