#!lua flags=allow-oom
-- Tells how far Postgres has a shard's log, and trims what neither reader needs any more.
-- It must work when memory is full (allow-oom): trimming is what frees it.
-- KEYS[1] the persister's hash; KEYS[2] the aggregator's hash; KEYS[3] the log
-- ARGV[1] the persister's owner; ARGV[2] its offset as committed in Postgres, "ms-seq"
-- ARGV[3] how much log time is kept before the smaller of both offsets, in milliseconds: what a rebuilt reader reads
-- Returns how many entries were trimmed, or -1 when the lease is not this owner's: then nothing was done.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return -1
end
local ours = tonumber(string.match(ARGV[2], '^(%d+)-%d+$'))
local behind = tonumber(ARGV[3])
if not ours or not behind then
  return redis.error_reply('ERR trim: the offset or the time kept is no number')
end
-- Types first: what fails after a write is not taken back.
local log = redis.call('TYPE', KEYS[3]).ok
if log ~= 'none' and log ~= 'stream' then
  return redis.error_reply('ERR trim: the log is no stream')
end
local theirs = redis.call('HGET', KEYS[2], 'offset')
redis.call('HSET', KEYS[1], 'offset', ARGV[2])
-- Without an aggregator that has ever committed nothing may go.
theirs = theirs and tonumber(string.match(theirs, '^(%d+)-%d+$'))
if not theirs then
  return 0
end
local before = math.min(ours, theirs) - behind
if before <= 0 then
  return 0
end
-- %.0f, as Lua writes a number of thirteen digits as 1.7e+12.
return redis.call('XTRIM', KEYS[3], 'MINID', '=', string.format('%.0f', before))
